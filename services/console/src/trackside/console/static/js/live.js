// Keeps an open page up to date by one stream of server-sent events: /live?page=<address of the page>.
//
// Events: `fragment` (HTML of one or more elements with ids, which replace those of the page), `changed`
// ({"streams": [...]}: charts with data-live load again), `position` (text for #position), `waiting` (text for
// #status-bar, empty when nothing is waited for). The stream is closed while the page is hidden.
// <body data-live="off"> has no stream.

import { morphFragment } from "./morph.js";

const BANNER_AFTER_MS = 2000;
const RETRY_MS = [500, 1000, 2000, 5000];

let source = null;
let banner = null;
let bannerTimer = 0;
let retryTimer = 0;
let failures = 0;
let openedFor = "";

function open() {
    close();
    if (document.hidden) return;
    openedFor = location.pathname + location.search;
    const address = new URL("/live", location.origin);
    address.searchParams.set("page", openedFor);
    source = new EventSource(address);
    source.onopen = connected;
    source.onerror = lost;
    source.addEventListener("fragment", (event) => morphFragment(event.data));
    source.addEventListener("changed", (event) => {
        document.dispatchEvent(
            new CustomEvent("console:changed", { detail: JSON.parse(event.data || "{}") }),
        );
    });
    source.addEventListener("position", (event) => setText("position", event.data));
    source.addEventListener("waiting", (event) => setText("status-bar", event.data));
}

function close() {
    clearTimeout(retryTimer);
    source?.close();
    source = null;
}

function connected() {
    failures = 0;
    clearTimeout(bannerTimer);
    bannerTimer = 0;
    if (banner) {
        banner.remove();
        banner = null;
        // Charts may have missed changes while the connection was lost.
        document.dispatchEvent(new CustomEvent("console:changed", { detail: {} }));
    }
}

function lost() {
    // The browser itself connects again after a cut, but not after an answer that is an error.
    if (source?.readyState === EventSource.CLOSED) {
        retryTimer = setTimeout(open, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
        failures += 1;
    }
    if (!bannerTimer) bannerTimer = setTimeout(showBanner, BANNER_AFTER_MS);
}

function showBanner() {
    if (banner || document.hidden) return;
    banner = document.createElement("div");
    banner.className = "connection";
    banner.setAttribute("role", "status");
    banner.textContent = "Connection to the console is lost; trying again";
    const nav = document.querySelector(".nav");
    if (nav) nav.after(banner);
    else document.body.prepend(banner);
}

function setText(id, text) {
    const element = document.getElementById(id);
    if (element && element.textContent !== text) element.textContent = text;
}

/** Opens the stream of the page's new address, after the page changed its address itself. */
function follow() {
    if (location.pathname + location.search !== openedFor) open();
}

if (document.body.dataset.live !== "off") {
    open();
    document.addEventListener("visibilitychange", () => {
        if (document.hidden) {
            close();
            clearTimeout(bannerTimer);
            bannerTimer = 0;
        } else {
            open();
            document.dispatchEvent(new CustomEvent("console:changed", { detail: {} }));
        }
    });
    addEventListener("pagehide", close);
    addEventListener("pageshow", (event) => event.persisted && open());
    for (const name of ["htmx:pushedIntoHistory", "htmx:replacedInHistory"])
        document.addEventListener(name, follow);
    addEventListener("popstate", () => setTimeout(follow));
}
