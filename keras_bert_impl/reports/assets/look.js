const look = JSON.parse(document.getElementById("data").textContent);
const [layers, heads, length] = look.sizes;
const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const weights = bytesOf(look.weights);
const rolled = bytesOf(look.rollout);
const byId = (id) => document.getElementById(id);
const controls = { view: byId("view"), layer: byId("layer"), head: byId("head"), side: byId("side") };
const size = length * length;
let chosen = 0;

function fill(select, count) {
  for (let n = 0; n < count; n++) select.add(new Option(String(n + 1), String(n)));
}

// Weights are stored as 255 times their square root.
function matrix(view, layer, head) {
  if (view === "rollout") {
    return Array.from(rolled.subarray(layer * size, (layer + 1) * size), (b) => (b / 255) ** 2);
  }
  const at = (h) => weights.subarray((layer * heads + h) * size, (layer * heads + h + 1) * size);
  if (view === "weights") return Array.from(at(head), (b) => (b / 255) ** 2);
  const sum = new Array(size).fill(0);
  for (let h = 0; h < heads; h++) at(h).forEach((b, i) => (sum[i] += (b / 255) ** 2 / heads));
  return sum;
}

function ink() {
  return getComputedStyle(document.documentElement).getPropertyValue("--for");
}

function paint(canvas, values, cell) {
  canvas.width = canvas.height = length * cell;
  const context = canvas.getContext("2d");
  const color = ink();
  values.forEach((value, i) => {
    context.fillStyle = `rgba(${color},${Math.sqrt(value)})`;
    context.fillRect((i % length) * cell, Math.floor(i / length) * cell, cell, cell);
  });
}

function show() {
  const view = controls.view.value;
  const layer = Number(controls.layer.value);
  const head = Number(controls.head.value);
  controls.head.disabled = view !== "weights";
  const values = matrix(view, layer, head);
  const isRow = controls.side.value === "row";
  const of = look.tokens.map((_, n) => values[isRow ? chosen * length + n : n * length + chosen]);
  const most = Math.max(...of, 1e-9);
  byId("tokens").querySelectorAll("button").forEach((button, n) => {
    button.style.setProperty("--a", (0.6 * of[n]) / most);
    button.setAttribute("aria-pressed", String(n === chosen));
    button.tabIndex = n === chosen ? 0 : -1;
    button.title = of[n].toFixed(3);
  });
  const largest = of.map((value, n) => [value, n]).sort((a, b) => b[0] - a[0]).slice(0, 5);
  const named = largest.map(([value, n]) => `${look.tokens[n]} ${value.toFixed(2)}`).join(", ");
  byId("said").textContent =
    `${look.tokens[chosen]} ${isRow ? "attends to" : "is attended by"}: ${named}`;
  paint(byId("map"), values, Math.max(4, Math.min(16, Math.floor(480 / length))));
  byId("heads").querySelectorAll("button").forEach((button, n) => {
    button.setAttribute("aria-pressed", String(view === "weights" && n === layer * heads + head));
  });
}

function choose(number) {
  chosen = Math.max(0, Math.min(length - 1, number));
  show();
}

fill(controls.layer, layers);
fill(controls.head, heads);
Object.values(controls).forEach((select) => select.addEventListener("change", show));
look.tokens.forEach((token, n) => {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = token;
  button.addEventListener("click", () => choose(n));
  byId("tokens").append(button);
});
byId("tokens").addEventListener("keydown", (event) => {
  const to = { ArrowRight: chosen + 1, ArrowLeft: chosen - 1, Home: 0, End: length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  choose(to);
  byId("tokens").children[chosen].focus();
});
byId("heads").style.gridTemplateColumns = `repeat(${heads}, auto)`;
for (let n = 0; n < layers * heads; n++) {
  const [layer, head] = [Math.floor(n / heads), n % heads];
  const button = document.createElement("button");
  button.type = "button";
  button.setAttribute("aria-label", `layer ${layer + 1}, head ${head + 1}`);
  button.title = `layer ${layer + 1}, head ${head + 1}`;
  const canvas = document.createElement("canvas");
  button.append(canvas);
  button.addEventListener("click", () => {
    controls.view.value = "weights";
    controls.layer.value = layer;
    controls.head.value = head;
    show();
  });
  byId("heads").append(button);
}
function paintAll() {
  byId("heads").querySelectorAll("canvas").forEach((canvas, n) => {
    paint(canvas, matrix("weights", Math.floor(n / heads), n % heads), Math.max(1, Math.floor(56 / length)));
  });
  show();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paintAll);
paintAll();
