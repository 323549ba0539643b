// Selection of experiments or trials to compare: <input type="checkbox" data-compare="ID"> in tables. The list is kept
// while the tab is open, over pages and live updates; a bar with a Compare button shows how many are selected.
// The element that holds the table may set data-compare-href (default /compare) and data-compare-limit (default 20),
// and data-selected-href: the page where all that is selected can be stopped or archived.

const KEY = "compare";

function read() {
    try {
        return JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
    } catch {
        return [];
    }
}

function write(ids) {
    try {
        sessionStorage.setItem(KEY, JSON.stringify(ids));
    } catch {
        // Storage is blocked or full: the selection is valid for this page only.
    }
    show(ids);
}

function show(ids = read()) {
    const chosen = new Set(ids);
    const boxes = [...document.querySelectorAll("input[data-compare]")];
    for (const box of boxes) {
        box.checked = chosen.has(box.dataset.compare);
        box.closest("tr")?.classList.toggle("selected", box.checked);
    }
    showBar(ids, boxes);
}

function showBar(ids, boxes) {
    let bar = document.querySelector(".compare-bar");
    if (!ids.length || !boxes.length) return bar?.remove();
    if (!bar) {
        bar = document.createElement("div");
        bar.className = "compare-bar";
        bar.setAttribute("role", "region");
        bar.setAttribute("aria-label", "Selected for comparison");
        bar.append(document.createElement("span"), makeLink("Compare", "primary"), makeActions(), makeClear());
        // Outside main, which live updates replace.
        const footer = document.querySelector(".status-bar");
        if (footer) footer.before(bar);
        else document.body.append(bar);
    }
    const holder = document.querySelector("[data-compare-href]");
    const limit = Number(document.querySelector("[data-compare-limit]")?.dataset.compareLimit ?? 20);
    const possible = ids.length >= 2 && ids.length <= limit;
    bar.firstElementChild.textContent = possible
        ? `${ids.length} selected`
        : `${ids.length} selected; 2 to ${limit} can be compared`;
    const link = bar.querySelector("a");
    link.hidden = !possible;
    const address = new URL(holder?.dataset.compareHref ?? "/compare", location.origin);
    for (const id of ids) address.searchParams.append("id", id);
    link.href = address.pathname + address.search;
    const actions = bar.querySelector("[data-selected-actions]");
    const page = document.querySelector("[data-selected-href]")?.dataset.selectedHref;
    actions.hidden = !page;
    if (page) actions.href = page + address.search;
}

function makeLink(text, kind) {
    return Object.assign(document.createElement("a"), {
        className: `button ${kind} small`,
        textContent: text,
    });
}

/** Returns the link to the page of all that is selected, where it can be stopped; hidden for those who may not. */
function makeActions() {
    const link = makeLink("Stop or archive", "");
    link.dataset.selectedActions = "";
    return link;
}

function makeClear() {
    const button = Object.assign(document.createElement("button"), {
        type: "button",
        className: "button small",
        textContent: "Clear",
    });
    button.addEventListener("click", () => write([]));
    return button;
}

/** Shows the selection, and follows the checkboxes. */
export function startCompare() {
    show();
    document.addEventListener("change", (event) => {
        const id = event.target.dataset?.compare;
        if (id === undefined) return;
        const others = read().filter((other) => other !== id);
        write(event.target.checked ? [...others, id] : others);
    });
    for (const name of ["console:morphed", "htmx:afterSettle"]) document.addEventListener(name, () => show());
    addEventListener("pageshow", () => show());
}
