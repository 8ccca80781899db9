// Drawings of an output's parts, one function for each kind of view (common_jax/deploy/schema.py).
// Texts enter the page as text only, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const SMALLEST = 0.004; // weights below are not drawn
const CELL = 20; // of a grid, in units of its picture

/** An element with attributes and children. */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const fixed = (number) => Number.isInteger(number) ? `${number}` : number.toFixed(4);
const cleaned = (piece) => piece.replaceAll("▁", " ").trim() || "▁";

/** The elements of all views of a model's outputs. */
export function draw(model, inputs, outputs) {
  const drawn = model.views.flatMap((view) => {
    const value = view.field ? outputs[0]?.[view.field] : outputs[0];
    const empty = value === undefined || (Array.isArray(value) && !value.length);
    if (empty) return [];
    const body = kinds[view.kind](value, {view, inputs, outputs, output: outputs[0]});
    return [element("h3", {}, view.title), body];
  });
  if (drawn.length) return drawn;
  return [element("pre", {class: "wide"}, JSON.stringify(outputs, null, 1))];
}

function text(value) {
  return element("p", {class: "answer", dir: "auto"}, value);
}

/** A number, with a bar if it is a share. */
function numberCell(number, most = 1) {
  const cell = element("td", {class: "number"}, fixed(number));
  if (number >= 0 && number <= 1) cell.append(bar(number / most));
  return cell;
}

function bar(share) {
  const one = element("span", {class: "bar", "aria-hidden": "true"});
  one.style.width = `${(100 * share).toFixed(1)}%`;
  return one;
}

function table(value) {
  const rows = Array.isArray(value) ? value
    : Object.entries(value).sort((a, b) => b[1] - a[1])
      .map(([label, probability]) => ({label, probability}));
  const columns = Object.keys(rows[0]);
  const head = element("tr", {}, ...columns.map((name) => element("th", {scope: "col"}, name)));
  const cells = (row) => columns.map((name) =>
    typeof row[name] === "number" ? numberCell(row[name]) : element("td", {dir: "auto"}, row[name]));
  const body = rows.map((row) => element("tr", {}, ...cells(row)));
  return element("div", {class: "wide"}, element("table", {},
    element("thead", {}, head), element("tbody", {}, ...body)));
}

/** The text with the answer marked; offsets count characters, not units of UTF-16. */
function span(value, {view, inputs}) {
  const characters = Array.from(inputs[0][view.of]);
  const part = (start, end) => characters.slice(start, end).join("");
  return element("div", {},
    element("p", {class: "answer", dir: "auto"}, value.answer),
    element("p", {class: "faint"}, `probability ${fixed(value.probability)}`),
    element("p", {class: "passage", dir: "auto"}, part(0, value.start),
      element("mark", {}, part(value.start, value.end)), part(value.end)));
}

/** Curves over words, with the most probable words as text. */
function curves(value) {
  const {words, ...series} = value, highest = Math.max(...Object.values(series).flat(), 1e-9);
  const step = 1 / Math.max(1, words.length - 1);
  const points = (numbers) => numbers.map((y, n) => `${(n * step).toFixed(4)},${1 - y / highest}`).join(" ");
  const names = Object.keys(series), classes = ["first", "last"];
  const lines = names.map((name, n) =>
    svg("polyline", {class: `curve ${classes[n % 2]}`, points: points(series[name])}));
  const best = (numbers) => numbers.map((p, n) => [p, n]).sort((a, b) => b[0] - a[0]).slice(0, 3);
  const legend = names.map((name, n) => element("li", {},
    element("strong", {class: classes[n % 2]}, `${name} word: `),
    best(series[name]).map(([p, at]) => `${words[at]} (${fixed(p)})`).join(", ")));
  const picture = svg("svg", {class: "plot", viewBox: "0 -0.05 1 1.1", preserveAspectRatio: "none",
    "aria-hidden": "true"}, ...lines);
  const ends = element("p", {class: "faint"},
    `From “${words[0]}” to “${words.at(-1)}”, up to ${fixed(highest)}`);
  return element("div", {}, picture, ends, element("ul", {}, ...legend));
}

/** A grid of weights [rows][columns]; with the window that each row can attend to. */
function grid(weights, reach, names) {
  const size = weights.length * CELL, margin = names ? 5 * CELL : 0;
  const marks = weights.flatMap((row, y) => row.map((weight, x) => [weight, x, y]))
    .filter(([weight]) => weight >= SMALLEST)
    .map(([weight, x, y]) => svg("rect", {class: "cell", x: x * CELL, y: y * CELL, width: CELL,
      height: CELL, "fill-opacity": Math.min(1, weight).toFixed(3)}));
  marks.push(svg("rect", {class: "frame", x: 0, y: 0, width: size, height: size}));
  if (reach?.some(([first, last]) => first > 0 || last < weights.length - 1)) {
    const side = (x, y) => `${x * CELL},${y * CELL}`;
    const right = reach.flatMap(([, last], y) => [side(last + 1, y), side(last + 1, y + 1)]);
    const left = reach.flatMap(([first], y) => [side(first, y), side(first, y + 1)]).reverse();
    marks.push(svg("polygon", {class: "window", points: [...right, ...left].join(" ")}));
  }
  names?.forEach((name, n) => {
    const short = name.length > 8 ? `${name.slice(0, 7)}…` : name, at = (n + 0.7) * CELL;
    marks.push(svg("text", {x: -5, y: at, "text-anchor": "end"}, short));
    marks.push(svg("text", {transform: `translate(${at} -5) rotate(-90)`}, short));
  });
  const box = [-margin, -margin, size + margin, size + margin].join(" ");
  return svg("svg", {viewBox: box, "aria-hidden": "true"}, ...marks);
}

/** The maps of a layer's heads, and the chosen one with its pieces. */
function heads(value, {view, output}) {
  const names = output[view.of].map(cleaned), reach = output.reach;
  const maps = element("div", {class: "heads"}), large = element("figure");
  const summed = (head) => head.map((query) =>
    query[0].map((_, key) => query.reduce((sum, area) => sum + area[key], 0)));
  const caption = (layer, head) => {
    const area = value[layer][head][0].length, spans = reach?.[layer][head];
    const widest = Math.max(...(spans ?? [[0, 0]]).map(([first, last]) => last - first + 1));
    const limit = widest < names.length ? `, a window of ${widest} pieces` : "";
    const keys = area > 1 ? `, keys of ${area} heads` : "";
    return `Layer ${layer + 1}, head ${head + 1}${limit}${keys}`;
  };
  const choose = (layer, head) => {
    maps.querySelectorAll("button").forEach((one, n) => one.setAttribute("aria-pressed", n === head));
    large.replaceChildren(
      element("figcaption", {}, `${caption(layer, head)}; rows attend to columns`),
      grid(summed(value[layer][head]), reach?.[layer][head], names));
  };
  const show = (layer) => {
    maps.replaceChildren(...value[layer].map((head, n) => {
      const one = element("button", {type: "button", "aria-label": caption(layer, n)},
        grid(summed(head), reach?.[layer][n]), `head ${n + 1}`);
      one.addEventListener("click", () => choose(layer, n));
      return one;
    }));
    choose(layer, 0);
  };
  const options = value.map((_, n) => element("option", {value: n}, `layer ${n + 1}`));
  const layers = element("select", {"aria-label": "Layer"}, ...options);
  layers.addEventListener("change", () => show(Number(layers.value)));
  show(0);
  return element("div", {}, element("p", {}, layers), maps, large);
}

/** The words of a text, shaded by weights. */
function shaded(words, weights) {
  const most = Math.max(...weights, 1e-9);
  return element("p", {class: "words", dir: "auto"}, ...words.flatMap((word, n) => {
    const one = element("span", {title: fixed(weights[n])}, word);
    one.style.backgroundColor = `rgba(var(--shade), ${(0.75 * weights[n] / most).toFixed(3)})`;
    return [one, " "];
  }));
}

/** One attention map: the words of a text as buttons, and the words attended to. */
function attended({text: from, context, weights}, words) {
  const mean = weights[0].map((_, n) => weights.reduce((s, row) => s + row[n], 0) / weights.length);
  const target = element("div", {}, shaded(words[context], mean));
  const several = words.length > 1;
  const name = (n) => several ? `text ${n + 1}` : "the text";
  if (from === null || from === undefined) {
    const caption = `Weights with which ${name(context)} is pooled`;
    return element("figure", {}, element("figcaption", {}, caption), target);
  }
  const buttons = words[from].map((word, n) => {
    const one = element("button", {type: "button", "aria-pressed": false}, word);
    one.addEventListener("click", () => {
      const chosen = one.getAttribute("aria-pressed") === "true";
      buttons.forEach((other) => other.setAttribute("aria-pressed", false));
      one.setAttribute("aria-pressed", !chosen);
      target.replaceChildren(shaded(words[context], chosen ? mean : weights[n]));
    });
    return one;
  });
  const caption = `From ${name(from)} to ${name(context)}; choose a word to see its weights`;
  const source = element("p", {class: "words", dir: "auto"}, ...buttons.flatMap((one) => [one, " "]));
  return element("figure", {}, element("figcaption", {}, caption), source, target);
}

function words(layers, {view, output}) {
  const all = output[view.of];
  return element("div", {}, ...layers.flatMap((maps, n) => [
    ...(layers.length > 1 ? [element("h4", {}, `Layer ${n + 1}`)] : []),
    ...maps.map((map) => attended(map, all)),
  ]));
}

/** All inputs, the best first; scores differ where probabilities are rounded to 1. */
function ranking(_, {view, inputs, outputs}) {
  const names = Object.keys(inputs[0]), last = names.at(-1);
  const items = inputs.map((input, n) => [outputs[n], input[last]])
    .sort(([a], [b]) => b.score - a.score)
    .map(([output, sentence]) => [output[view.field][view.of], sentence])
    .map(([probability, sentence]) => element("li", {dir: "auto"}, sentence,
      element("div", {class: "faint"}, fixed(probability)), bar(probability)));
  return element("ol", {class: "ranking"}, ...items);
}

const kinds = {text, table, span, curves, heads, words, ranking};
