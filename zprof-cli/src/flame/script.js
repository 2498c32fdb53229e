"use strict";
(() => {
  const svg = document.currentScript.ownerSVGElement;
  const byId = (id) => svg.querySelector("#" + id);
  const left = 10, width = 1180, perCharacter = 7.2;
  // Positions are rounded when they are written.
  const slack = 0.01;
  const initial = byId("details").textContent;
  const frames = [...svg.querySelectorAll("#frames > g")].map((group) => {
    const rect = group.querySelector("rect"), text = group.querySelector("text");
    const number = (name) => Number(rect.getAttribute(name));
    const title = group.querySelector("title").textContent;
    const name = title.slice(0, title.lastIndexOf(" ("));
    return { group, rect, text, title, name, x: number("x"), width: number("width"), y: number("y"), fill: rect.getAttribute("fill") };
  });

  function place(frame, x, wide) {
    frame.group.style.display = wide > 0 ? "" : "none";
    if (wide <= 0) return;
    frame.rect.setAttribute("x", x.toFixed(3));
    frame.rect.setAttribute("width", wide.toFixed(3));
    const room = Math.floor((wide - 6) / perCharacter), letters = [...frame.name];
    const cut = letters.length <= room ? frame.name : room < 3 ? "" : letters.slice(0, room - 2).join("") + "..";
    frame.text.setAttribute("x", (x + 3).toFixed(3));
    frame.text.textContent = cut;
  }

  function zoom(target) {
    const end = target.x + target.width, scale = width / target.width;
    for (const frame of frames) {
      const frameEnd = frame.x + frame.width;
      const isInside = frame.x >= target.x - slack && frameEnd <= end + slack;
      const isAround = frame.x <= target.x + slack && frameEnd >= end - slack;
      if (frame.y <= target.y && isInside) {
        place(frame, left + (frame.x - target.x) * scale, frame.width * scale);
      } else if (frame.y > target.y && isAround) {
        place(frame, left, width);
      } else {
        place(frame, 0, 0);
      }
      frame.group.style.opacity = frame.y > target.y ? 0.5 : 1;
    }
    byId("reset").style.display = "";
  }

  function reset() {
    for (const frame of frames) {
      place(frame, frame.x, frame.width);
      frame.group.style.opacity = 1;
    }
    byId("reset").style.display = "none";
  }

  function search(wanted) {
    let matches = () => false;
    if (wanted) {
      try {
        const pattern = new RegExp(wanted, "i");
        matches = (name) => pattern.test(name);
      } catch {
        matches = (name) => name.includes(wanted);
      }
    }
    const spans = [];
    for (const frame of frames) {
      const isFound = matches(frame.name);
      frame.rect.setAttribute("fill", isFound ? "rgb(230,0,230)" : frame.fill);
      if (isFound) spans.push([frame.x, frame.x + frame.width]);
    }
    // A frame on another one that is found covers no more of the picture.
    spans.sort((one, other) => one[0] - other[0]);
    let covered = 0, until = 0;
    for (const [start, end] of spans) {
      covered += Math.max(0, end - Math.max(start, until));
      until = Math.max(until, end);
    }
    byId("matched").textContent = wanted ? "Matched: " + (100 * covered / width).toFixed(2) + "%" : "";
    byId("search").textContent = wanted ? "Reset search" : "Search";
  }

  const frameOf = (event) => frames[[...byId("frames").children].indexOf(event.target.closest("#frames > g"))];
  svg.addEventListener("mouseover", (event) => {
    const group = event.target.closest("#frames > g");
    byId("details").textContent = group ? group.querySelector("title").textContent : initial;
  });
  svg.addEventListener("click", (event) => {
    if (event.target.closest("#frames > g")) return zoom(frameOf(event));
    if (event.target.id === "reset") return reset();
    if (event.target.id === "search") {
      const isOn = byId("matched").textContent !== "";
      search(isOn ? null : prompt("Names to find, as a regular expression:", ""));
    }
  });
  window.addEventListener("keydown", (event) => {
    if (event.key === "Escape") reset();
    if (event.key === "F3" || (event.ctrlKey && event.key === "f")) {
      event.preventDefault();
      search(prompt("Names to find, as a regular expression:", ""));
    }
  });
})();
