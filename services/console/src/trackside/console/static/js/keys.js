// Keys of every page: "/" search, "?" help, "g" and a letter to go to a view, j and k to move in a table, Enter to open,
// x to select a row for comparison.

const PLACES = {
    h: ["/", "Home"],
    e: ["/experiments", "Experiments"],
    f: ["/fleet", "Fleet"],
    l: ["/log", "Log"],
};
const CHORD_MS = 1500;

let chordUntil = 0;

/** Starts to handle keys. Keys that are typed into a field, or with Ctrl, Alt or Meta, are left to the browser. */
export function startKeys() {
    document.addEventListener("keydown", (event) => {
        if (
            event.ctrlKey ||
            event.metaKey ||
            event.altKey ||
            event.defaultPrevented ||
            isTyping(event.target)
        )
            return;
        if (document.querySelector("dialog[open]")) return;
        if (handle(event)) event.preventDefault();
    });
    document.addEventListener("click", (event) => {
        if (event.target.closest("[data-help]")) showHelp();
    });
}

function isTyping(element) {
    return (
        element.isContentEditable ||
        element.matches?.("input:not([type=checkbox], [type=radio], [type=button]), textarea, select")
    );
}

function handle(event) {
    if (Date.now() < chordUntil && PLACES[event.key]) {
        location.assign(PLACES[event.key][0]);
        return true;
    }
    chordUntil = event.key === "g" ? Date.now() + CHORD_MS : 0;
    switch (event.key) {
        case "/":
            return focusSearch();
        case "?":
            return showHelp();
        case "j":
        case "k":
            return moveRow(event.key === "j" ? 1 : -1);
        case "x":
            return toggleRow();
        case "Enter":
            return openRow();
        default:
            return event.key === "g";
    }
}

function focusSearch() {
    const wanted = ["main input[data-search]", "main input[type=search]", ".nav-search input"];
    const here = wanted.map((each) => document.querySelector(each)).find(Boolean);
    const nav = here?.closest(".nav");
    if (nav && !nav.hasAttribute("data-open") && here.offsetParent === null)
        nav.setAttribute("data-open", "");
    here?.focus();
    here?.select();
    return Boolean(here);
}

function rows() {
    return [...document.querySelectorAll(".page tr[data-href]")].filter((row) => row.offsetParent !== null);
}

function current() {
    return document.activeElement?.closest?.("tr[data-href]");
}

function moveRow(step) {
    const all = rows();
    const row = current();
    const next = row ? all[all.indexOf(row) + step] : all[step > 0 ? 0 : all.length - 1];
    if (!next) return false;
    next.tabIndex = -1;
    next.focus();
    next.scrollIntoView({ block: "nearest" });
    return true;
}

function toggleRow() {
    const box = current()?.querySelector("input[type=checkbox]");
    box?.click();
    return Boolean(box);
}

function openRow() {
    const row = current();
    if (!row || document.activeElement !== row) return false;
    location.assign(row.dataset.href);
    return true;
}

function showHelp() {
    const dialog = document.getElementById("help") ?? makeHelp();
    if (!dialog.open) dialog.showModal();
    return true;
}

function makeHelp() {
    const dialog = document.createElement("dialog");
    dialog.id = "help";
    dialog.setAttribute("aria-labelledby", "help-title");
    const title = document.createElement("h2");
    title.id = "help-title";
    title.textContent = "Keys";
    dialog.append(title);
    const keys = [
        ["/", "Search"],
        ["?", "This help"],
    ];
    for (const [key, [, name]] of Object.entries(PLACES)) keys.push([`g ${key}`, `Go to ${name}`]);
    keys.push(
        ["j k", "Next and previous row of a table"],
        ["Enter", "Open the row"],
        ["x", "Select the row"],
        ["Esc", "Close"],
    );
    for (const [key, meaning] of keys) {
        const line = document.createElement("div");
        line.className = "pair";
        line.append(Object.assign(document.createElement("span"), { textContent: meaning }));
        const pressed = document.createElement("span");
        for (const part of key.split(" "))
            pressed.append(Object.assign(document.createElement("kbd"), { textContent: part }), " ");
        line.append(pressed);
        dialog.append(line);
    }
    const actions = document.createElement("form");
    actions.method = "dialog";
    actions.className = "dialog-actions";
    actions.append(
        Object.assign(document.createElement("button"), { className: "button", textContent: "Close" }),
    );
    dialog.append(actions);
    document.body.append(dialog);
    return dialog;
}
