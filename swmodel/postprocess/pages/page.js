"use strict";
// Each .map holds a canvas, and the images of one or several variables as JSON. One slider, and the keys, choose the record.
// Parts of the page with a data-moment show at this place of the slider alone.
(function () {
  const map = document.querySelector(".map");
  if (!map) return;
  const movies = JSON.parse(map.querySelector("script[type='application/json']").textContent);
  const slider = map.querySelector("input[type=range]"), output = map.querySelector("output");
  const play = map.querySelector("button"), sheets = Array.from(map.querySelectorAll(".sheet"));
  const moments = Array.from(document.querySelectorAll("[data-moment]"));
  const lines = Array.from(document.querySelectorAll(".timeline")).map(function (holder) {
    const line = holder.appendChild(document.createElement("div"));
    line.className = "now";
    return { line: line, left: +holder.dataset.left, width: +holder.dataset.width,
      first: +holder.dataset.first, last: +holder.dataset.last };
  });
  let chosen = 0, timer = null;
  const images = movies.map(function (movie) { return movie.frames.map(function () { return null; }); });

  function image(variable, record) {
    if (!images[variable][record]) {
      const made = new Image();
      made.onload = function () { if (variable === chosen && record === +slider.value) draw(); };
      made.src = movies[variable].frames[record];
      images[variable][record] = made;
    }
    return images[variable][record];
  }

  function draw() {
    const movie = movies[chosen], record = +slider.value;
    output.textContent = movie.stamps[record];
    slider.setAttribute("aria-valuetext", movie.stamps[record]);
    lines.forEach(function (mark) {
      const share = (movie.seconds[record] - mark.first) / (mark.last - mark.first);
      mark.line.hidden = !(share >= 0 && share <= 1);
      mark.line.style.left = 100 * (mark.left + share * mark.width) + "%";
    });
    moments.forEach(function (part) { part.hidden = +part.dataset.moment !== record; });
    if (sheets.length) paint(movie, record);
  }

  function paint(movie, record) {
    const canvas = sheets[chosen].querySelector("canvas"), picture = image(chosen, record);
    sheets[chosen].querySelector(".winds path").setAttribute("d", movie.winds[record]);
    if (!picture.complete) return;
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(picture, 0, 0);
    canvas.dataset.record = record;
    if (record + 1 < movie.frames.length) image(chosen, record + 1);
  }

  function choose(variable) {
    const time = movies[chosen].seconds[+slider.value], times = movies[variable].seconds;
    chosen = variable;
    slider.max = times.length - 1;
    slider.value = times.reduce(function (best, t, k) {
      return Math.abs(t - time) < Math.abs(times[best] - time) ? k : best;
    }, 0);
    sheets.forEach(function (sheet, k) { sheet.hidden = k !== variable; });
    draw();
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  }

  function toggle() {
    if (timer !== null) return stop();
    if (+slider.value === +slider.max) slider.value = 0;
    play.textContent = "Pause";
    timer = setInterval(function () {
      if (+slider.value >= +slider.max) return stop();
      slider.value = +slider.value + 1;
      draw();
    }, 140);
  }

  slider.addEventListener("input", function () { stop(); draw(); });
  play.addEventListener("click", toggle);
  map.querySelectorAll(".choice input").forEach(function (button, k) {
    button.addEventListener("change", function () { choose(k); });
  });
  document.addEventListener("keydown", function (event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const plays = event.target === slider && event.key === " ";  // the slider has the focus after it was moved
    if (!plays && /^(INPUT|BUTTON|SUMMARY|A)$/.test(event.target.tagName)) return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) { stop(); slider.value = +slider.value + step; draw(); }
    else if (event.key === " ") toggle();
    else return;
    event.preventDefault();
  });
  draw();
})();
