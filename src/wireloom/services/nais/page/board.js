"use strict";
// Shows what /state says, and tells the board what was pressed. Texts are set as text, never HTML.

const EVERY_MS = 500;

function show(state) {
  for (const [name, lit] of Object.entries(state.leds)) {
    document.getElementById(name).setAttribute("aria-pressed", String(lit));
  }
  document.getElementById("state").textContent = `Connections: ${state.connections}`;
  const lines = state.happened.reverse().map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  });
  document.getElementById("happened").replaceChildren(...lines);
}

async function ask(path, options) {
  try {
    const response = await fetch(path, options);
    if (response.ok) show(await response.json());
    document.body.classList.remove("gone");
  } catch {
    // The next turn asks again.
    document.body.classList.add("gone");
    document.getElementById("state").textContent = "The board does not answer";
  }
}

const post = (path) => ask(path, { method: "POST", headers: { "X-Wireloom": "1" } });

for (const button of document.querySelectorAll(".led")) {
  button.addEventListener("click", () => post(`/leds/${button.id}`));
}
document.getElementById("press").addEventListener("click", () => post("/press"));
setInterval(() => ask("/state"), EVERY_MS);
