// Replaces parts of the page by newer HTML of the server, without losing what the reader does in them:
// focus, typed text, open sections, scroll positions, and charts stay.

/* global Idiomorph, htmx */

const OPEN_BY_READER = new Set(["DETAILS", "DIALOG"]);

/** Replaces each element of the page that has the id of an element in `html`; those without a place are ignored. */
export function morphFragment(html) {
    const parsed = new DOMParser().parseFromString(html, "text/html");
    for (const next of [...parsed.body.children]) {
        const current = next.id && document.getElementById(next.id);
        if (current) morphElement(current, next);
    }
}

function morphElement(current, next) {
    const id = current.id;
    Idiomorph.morph(current, next, {
        morphStyle: "outerHTML",
        // Of a button that has the focus, the text must still change: Pause becomes Resume.
        ignoreActiveValue: document.activeElement?.matches("input, textarea, select") ?? false,
        callbacks: { beforeNodeMorphed, beforeAttributeUpdated, beforeNodeRemoved },
    });
    const element = document.getElementById(id);
    if (!element) return;
    if (window.htmx) htmx.process(element);
    element.dispatchEvent(new CustomEvent("console:morphed", { bubbles: true }));
}

function beforeNodeMorphed(current, next) {
    if (current.nodeType !== Node.ELEMENT_NODE) return true;
    if (current.matches("figure.chart")) return morphChart(current, next);
    if (current.hasAttribute("data-keep")) return false;
    if (current.matches("input[name=command_id]")) return false; // a second click must carry the id of the first
    return !isChanged(current);
}

/** A chart draws itself; only its address and options are the server's. */
function morphChart(figure, next) {
    if (next.nodeType !== Node.ELEMENT_NODE || !next.matches("figure.chart")) return true;
    for (const name of ["data-src", "data-options"]) {
        const value = next.getAttribute(name);
        if (value !== null && value !== figure.getAttribute(name)) figure.setAttribute(name, value);
    }
    return false;
}

function beforeAttributeUpdated(name, element) {
    if (name === "open" && OPEN_BY_READER.has(element.tagName)) return false;
    if (name === "data-open") return false;
    return !(name === "aria-selected" && element.tagName === "TR");
}

function beforeNodeRemoved(node) {
    // An open dialog, or a field that is being typed in, stays until the reader is done.
    if (node.nodeType !== Node.ELEMENT_NODE) return true;
    return !(node.matches("dialog[open]") || (node === document.activeElement && isChanged(node)));
}

function isChanged(element) {
    if (element.tagName === "INPUT" && (element.type === "checkbox" || element.type === "radio")) {
        return element.checked !== element.defaultChecked;
    }
    if (element.tagName === "INPUT" || element.tagName === "TEXTAREA")
        return element.value !== element.defaultValue;
    if (element.tagName !== "SELECT") return false;
    return (
        [...element.options].some((option) => option.selected !== option.defaultSelected) &&
        hasDefault(element)
    );
}

function hasDefault(select) {
    return (
        select.multiple ||
        [...select.options].some((option) => option.defaultSelected) ||
        select.selectedIndex > 0
    );
}
