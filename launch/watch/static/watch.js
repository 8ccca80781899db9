// Replaces the parts of the page that have changed, while it is visible.

const form = document.getElementById("form"), time = document.getElementById("time");
const FAILED = 10; // seconds after which a server that did not answer is asked again
let version = "", shown = {}, request = 0, timer;

/** The address of the page with the chosen runs; of this server's choice if nothing was chosen. */
function chosen() {
  const query = new URLSearchParams(location.search);
  query.delete("version");
  return query;
}

/** Puts a part into the page; the box that has the focus keeps it. */
function replace(name, text) {
  if (shown[name] === text) return;
  shown[name] = text;
  const part = document.getElementById(name), focused = document.activeElement?.value;
  const had = part.contains(document.activeElement);
  part.innerHTML = text;
  if (had) [...part.querySelectorAll("input")].find((box) => box.value === focused)?.focus();
}

async function refresh() {
  clearTimeout(timer);
  const number = ++request, query = chosen();
  query.set("version", version);
  let pause = FAILED;
  try {
    const response = await fetch(`/live?${query}`);
    const answer = await response.json();
    if (number !== request) return; // another choice was made meanwhile
    if (!response.ok) throw new Error(answer.error.message);
    for (const [name, text] of Object.entries(answer.parts ?? {})) replace(name, text);
    version = answer.version;
    pause = answer.pause;
    time.className = "";
    time.textContent = `As of ${new Date().toLocaleTimeString()}`;
  } catch (error) {
    if (number !== request) return;
    time.className = "error";
    const lost = error instanceof TypeError;
    time.textContent = lost ? "The server does not answer." : error.message;
  }
  if (!document.hidden) timer = setTimeout(refresh, 1000 * pause);
}

form.addEventListener("change", () => {
  const query = new URLSearchParams(new FormData(form));
  history.replaceState(null, "", `?${query}`);
  refresh();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) refresh();
});
form.classList.add("live");
refresh();
