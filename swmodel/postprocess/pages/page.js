"use strict";
// Each .map holds a canvas, and the images of one or several variables as JSON. One slider, and the keys, choose the
// record. Parts of the page with a data-moment show at this place of the slider alone. Of several grids, one shows: that
// of the button, or of the box of a nest that was clicked.
function player(map) {
  const gridOf = function (part) { const of = part.closest("[data-grid]"); return of && of.dataset.grid; };
  const movies = JSON.parse(map.querySelector("script[type='application/json']").textContent);
  const slider = map.querySelector("input[type=range]"), output = map.querySelector("output");
  const play = map.querySelector(".controls button"), sheets = Array.from(map.querySelectorAll(".sheet"));
  const moments = Array.from(document.querySelectorAll("[data-moment]"));
  const own = function (one) { return gridOf(one) === gridOf(map); };
  const lines = Array.from(document.querySelectorAll(".timeline")).filter(own).map(function (holder) {
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

  function time() { return movies[chosen].seconds[+slider.value]; }

  function moveTo(time) {
    const times = movies[chosen].seconds;
    slider.max = times.length - 1;
    slider.value = times.reduce(function (best, t, k) {
      return Math.abs(t - time) < Math.abs(times[best] - time) ? k : best;
    }, 0);
    draw();
  }

  function choose(variable) {
    const now = time();
    chosen = variable;
    sheets.forEach(function (sheet, k) { sheet.hidden = k !== variable; });
    moveTo(now);
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
  draw();
  return {
    shows: function () { return !map.closest("section").hidden; },
    step: function (count) { stop(); slider.value = +slider.value + count; draw(); },
    slider: slider, toggle: toggle, stop: stop, time: time, moveTo: moveTo };
}

(function () {
  const players = Array.from(document.querySelectorAll(".map"), player);
  const parts = Array.from(document.querySelectorAll("[data-grid]")), buttons = document.querySelectorAll("#grid input");
  const grids = Array.from(new Set(parts.map(function (part) { return part.dataset.grid; })));
  const shown = function () { return players.find(function (one) { return one.shows(); }); };

  function show(grid) {
    const before = shown();
    parts.forEach(function (part) { part.hidden = part.dataset.grid !== grid; });
    buttons[grids.indexOf(grid)].checked = true;
    const now = shown();
    if (before && now && before !== now) { before.stop(); now.moveTo(before.time()); }
  }

  buttons.forEach(function (button, k) {
    button.addEventListener("change", function () { show(grids[k]); });
  });
  document.querySelectorAll(".zoom").forEach(function (button) {
    button.addEventListener("click", function () { show(button.value); });
  });
  document.addEventListener("keydown", function (event) {
    const one = shown();
    if (!one || event.altKey || event.ctrlKey || event.metaKey) return;
    const plays = event.target === one.slider && event.key === " ";  // the slider has the focus after it was moved
    if (!plays && /^(INPUT|BUTTON|SUMMARY|A)$/.test(event.target.tagName)) return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) one.step(step);
    else if (event.key === " ") one.toggle();
    else return;
    event.preventDefault();
  });
})();
