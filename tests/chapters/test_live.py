import queue
from collections.abc import Iterator

import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

from biaslib.chapters import live

CELL = """
from biaslib.chapters import live

def show(strength, size):
    print("computed at", strength, size)

dial = live.dial(show, strength=[0.0, 0.5, 1.0], size=[32])
dial
"""


@pytest.fixture
def kernel(monkeypatch) -> Iterator[BlockingKernelClient]:
    monkeypatch.delenv("BIASLIB_PAGE", raising=False)
    manager: KernelManager
    manager, client = start_new_kernel()
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def said(client: BlockingKernelClient, message: str) -> str:
    """All that a kernel says, printed or as an update of a widget, until it has dealt with a message."""
    texts = []
    while True:
        try:
            reply = client.get_iopub_msg(timeout=30)
        except queue.Empty:
            pytest.fail(f"the kernel fell silent after {texts}", pytrace=False)
        if reply["parent_header"].get("msg_id") == message:
            texts.append(str(reply["content"]))
            if reply["content"].get("execution_state") == "idle":
                return "\n".join(texts)


def test_a_slider_that_is_moved_in_the_browser_computes_anew(kernel):
    shown = said(kernel, kernel.execute(CELL))
    assert "application/vnd.jupyter.widget-view+json" in shown
    assert "computed at 0.0 32" in shown
    model = said(kernel, kernel.execute("print('model', dial.children[0].comm.comm_id)"))
    comm = model.partition("model ")[2].split("\\n")[0]
    moved = {"comm_id": comm, "data": {"method": "update", "state": {"index": 1}, "buffer_paths": []}}
    message = kernel.session.msg("comm_msg", moved)
    kernel.shell_channel.send(message)
    assert "computed at 0.5 32" in said(kernel, message["header"]["msg_id"])


def test_on_a_page_there_is_no_dial_that_nobody_answers(monkeypatch):
    monkeypatch.setenv("BIASLIB_PAGE", "1")
    assert live.dial(print, strength=[0, 1]) is None
