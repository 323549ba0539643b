// What every page does in the browser: theme, menus, dialogs and copying; forms, times, keys and comparison are modules.
//
// Markup: see MARKUP.md in this folder.

import { startCompare } from "./compare.js";
import { startForms } from "./forms.js";
import { startKeys } from "./keys.js";
import { startTimes } from "./times.js";
import { startSelected } from "./selected.js";

const NEAR_END_PX = 40;
const THEMES = ["system", "light", "dark"];

function startTheme() {
    const buttons = () => document.querySelectorAll("[data-theme-toggle]");
    const chosen = () => document.documentElement.dataset.theme ?? "system";
    const show = () => {
        for (const button of buttons()) {
            button.setAttribute("aria-label", `Theme: ${chosen()}`);
            button.title = `Theme: ${chosen()}`;
            button.textContent = { system: "◐", light: "☀", dark: "☾" }[chosen()];
        }
    };
    document.addEventListener("click", (event) => {
        if (!event.target.closest("[data-theme-toggle]")) return;
        const next = THEMES[(THEMES.indexOf(chosen()) + 1) % THEMES.length];
        if (next === "system") delete document.documentElement.dataset.theme;
        else document.documentElement.dataset.theme = next;
        try {
            localStorage.setItem("theme", next);
        } catch {
            // Storage is blocked: the choice is valid for this page only.
        }
        show();
        document.dispatchEvent(new CustomEvent("console:theme"));
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
        document.dispatchEvent(new CustomEvent("console:theme"));
    });
    show();
}

function startNavigation() {
    document.addEventListener("click", (event) => {
        const toggle = event.target.closest(".nav-toggle");
        if (!toggle) return;
        const opened = toggle.closest(".nav").toggleAttribute("data-open");
        toggle.setAttribute("aria-expanded", String(opened));
    });
    // A menu closes when the reader clicks outside it.
    document.addEventListener("click", (event) => {
        for (const menu of document.querySelectorAll("details.menu[open]")) {
            if (!menu.contains(event.target)) menu.open = false;
        }
    });
    document.addEventListener("click", (event) => {
        const row = event.target.closest("tr[data-href]");
        if (
            row &&
            !event.target.closest("a, button, input, label, select, summary") &&
            !getSelection().toString()
        ) {
            location.assign(row.dataset.href);
        }
    });
}

async function copy(button) {
    const source = button.dataset.copyFrom && document.querySelector(button.dataset.copyFrom);
    const text = source ? (source.value ?? source.textContent) : button.dataset.copy;
    const before = button.textContent;
    try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
    } catch {
        button.textContent = "Copying is blocked by the browser";
    }
    setTimeout(() => (button.textContent = before), 1500);
}

function startButtons() {
    document.addEventListener("click", (event) => {
        const copying = event.target.closest("[data-copy], [data-copy-from]");
        if (copying) copy(copying);
        const opening = event.target.closest("[data-dialog]");
        if (opening) document.getElementById(opening.dataset.dialog)?.showModal();
        const closing = event.target.closest("[data-close]");
        if (closing) closing.closest("dialog")?.close();
    });
    // In the capturing phase, before htmx and the form see the click.
    document.addEventListener("click", askFirst, { capture: true });
}

function askFirst(event) {
    const button = event.target.closest("[data-confirm]");
    if (!button || button.dataset.confirmed !== undefined) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const dialog = confirmDialog(button);
    dialog.addEventListener("close", () => {
        dialog.remove();
        button.focus();
        if (dialog.returnValue !== "yes") return;
        button.dataset.confirmed = "";
        button.click();
        delete button.dataset.confirmed;
    });
    document.body.append(dialog);
    dialog.showModal();
}

function confirmDialog(button) {
    const dialog = document.createElement("dialog");
    const title = document.createElement("h2");
    title.id = "confirm-title";
    title.textContent = button.dataset.confirmTitle ?? "Are you sure?";
    dialog.setAttribute("aria-labelledby", title.id);
    const text = document.createElement("p");
    text.textContent = button.dataset.confirm;
    const actions = document.createElement("form");
    actions.method = "dialog";
    actions.className = "dialog-actions";
    const no = Object.assign(document.createElement("button"), {
        className: "button",
        value: "no",
        textContent: "Cancel",
    });
    const yes = Object.assign(document.createElement("button"), { value: "yes" });
    yes.className = button.matches(".danger") ? "button danger" : "button primary";
    yes.textContent = button.dataset.confirmYes ?? button.textContent.trim();
    actions.append(no, yes);
    dialog.append(title, text, actions);
    return dialog;
}

/** Keeps the end of a growing log in view, if it was in view before lines were added. */
function startLogs() {
    const following = new WeakSet();
    const logOf = (event) => event.target.closest?.("[role=log]");
    document.addEventListener("htmx:beforeSwap", (event) => {
        const log = logOf(event);
        if (log && log.scrollHeight - log.scrollTop - log.clientHeight < NEAR_END_PX) following.add(log);
        else if (log) following.delete(log);
    });
    document.addEventListener("htmx:load", (event) => {
        const log = logOf(event);
        if (log && following.has(log)) log.scrollTop = log.scrollHeight;
    });
}

startForms();
startLogs();
startTheme();
startNavigation();
startButtons();
startTimes();
startKeys();
startCompare();
startSelected();
