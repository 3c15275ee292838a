// A quiz becomes a choice that is answered at once; a prediction hides its figure until the reader has guessed.
// Without scripts a quiz is a list of folds, and a prediction its question, its answer and the figure. Nothing is kept.
document.addEventListener("DOMContentLoaded", () => {
  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  for (const quiz of document.querySelectorAll(".exercise.quiz")) {
    const list = quiz.querySelector("ul"), question = list.previousElementSibling;
    const why = make("div", { className: "quiz-why" });
    why.setAttribute("aria-live", "polite");
    const answers = [...list.children].map((item) => {
      const [words, reason] = item.firstElementChild.children;
      const answer = () => {
        why.className = `quiz-why ${item.className}`;
        why.replaceChildren(reason);
      };
      return make("label", {}, make("input", { type: "radio", name: quiz.id, onchange: answer }),
        make("span", {}, ...words.childNodes));
    });
    list.replaceWith(make("fieldset", {}, make("legend", {}, ...question.childNodes), ...answers, why));
    question.remove();
  }

  for (const box of document.querySelectorAll(".exercise.predict")) {
    const figure = document.getElementById(box.id.replace("predict-", ""));
    const answer = box.querySelector("section").lastElementChild;
    const [, truth, unit] = answer.querySelector(".pasted-text").textContent.match(/([\d.]+)(.*)/);
    const said = make("output", { textContent: `50${unit}` });
    const slider = make("input", { type: "range", value: 50, oninput: () => { said.textContent = slider.value + unit; } });
    const mark = (words, place) => {
      const drawn = make("span", { textContent: words });
      drawn.style.left = `${place}%`;
      return drawn;
    };
    const show = (guessed) => {
      const scale = make("div", { className: "predict-scale" }, mark("you", slider.value), mark("answer", truth));
      scale.setAttribute("aria-hidden", "true");
      controls.replaceWith(guessed ? scale : "");
      if (guessed) answer.prepend(`You said ${slider.value}${unit}. `);
      answer.hidden = false;
      figure.classList.remove("veiled");
      answer.focus();
    };
    const button = (words, guessed) =>
      make("button", { type: "button", textContent: words, onclick: () => show(guessed) });
    const controls = make("div", { className: "predict-controls" }, make("label", {}, "Your guess: ", said, slider),
      button("This is my guess", true), button("Just show me", false));
    answer.before(controls);
    answer.hidden = true;
    answer.tabIndex = -1;  // so that it can be read out when it appears
    figure.classList.add("veiled");
  }
});
