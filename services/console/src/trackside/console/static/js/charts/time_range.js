// The range of a time axis that is shown: zoom and move by pointer and buttons, kept in the address of the page.

import { make } from "./text.js";

const SHORTEST_MS = 20;
const ZOOM = 1.6;
const SHARE_OF_MOVE = 0.4;
const DRAG_PX = 5;

/** The shown range in ms; `changed` is called after each change. */
export class TimeRange {
    constructor(state, changed) {
        this.state = state;
        this.changed = changed;
        const [from, to] = (state.get("time") ?? "").split("~").map(Number);
        this.chosen = to > from ? [from, to] : null;
        this.whole = [0, 1];
    }

    /** Sets the range of everything; it is shown unless another was chosen. */
    setWhole(from, to) {
        this.whole = [from, to];
    }

    get from() {
        return (this.chosen ?? this.whole)[0];
    }

    get to() {
        return (this.chosen ?? this.whole)[1];
    }

    /** Shows a range; null for everything. */
    choose(from, to) {
        this.chosen =
            from === null || to - from < SHORTEST_MS ? (from === null ? null : this.chosen) : [from, to];
        this.state.set("time", this.chosen && this.chosen.map(Math.round).join("~"));
        this.changed();
    }

    /** Zooms by a factor (over 1: closer) around a time, by default the center. */
    zoom(factor, around = (this.from + this.to) / 2) {
        const from = around - (around - this.from) / factor;
        const to = around + (this.to - around) / factor;
        if (from <= this.whole[0] && to >= this.whole[1]) this.choose(null);
        else this.choose(from, to);
    }

    /** Moves by a share of the shown range. */
    move(share) {
        const distance = (this.to - this.from) * share;
        this.choose(this.from + distance, this.to + distance);
    }
}

/** Adds the buttons that zoom and move. */
export function rangeButtons(tools, range) {
    const actions = [
        ["−", "Zoom out", () => range.zoom(1 / ZOOM)],
        ["+", "Zoom in", () => range.zoom(ZOOM)],
        ["←", "Earlier", () => range.move(-SHARE_OF_MOVE)],
        ["→", "Later", () => range.move(SHARE_OF_MOVE)],
        ["All", "All: show everything", () => range.choose(null)],
    ];
    for (const [text, label, action] of actions) {
        const button = make("button", "button small", text);
        button.type = "button";
        button.title = label;
        button.setAttribute("aria-label", label);
        button.addEventListener("click", action);
        tools.append(button);
    }
}

/** Lets the pointer zoom and select in a timeline: drag, double click, Ctrl and the wheel, click on a bar. */
export function followPointer(canvas, timeline) {
    const { range } = timeline;
    let down = null;
    const at = (event) => [event.offsetX, event.offsetY];
    canvas.addEventListener("pointerdown", (event) => {
        if (event.button !== 0 || event.pointerType === "touch") return;
        down = event.offsetX;
        canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
        if (down !== null && Math.abs(event.offsetX - down) > DRAG_PX) {
            timeline.dragged = [down, event.offsetX].sort((one, other) => one - other);
            timeline.tip.hide();
            timeline.paint();
        } else {
            timeline.pointAt(...at(event));
        }
    });
    canvas.addEventListener("pointerup", () => {
        const { dragged } = timeline;
        down = null;
        timeline.dragged = null;
        if (dragged) range.choose(...dragged.map((x) => timeline.timeAt(x)));
        timeline.wasDragged = Boolean(dragged);
    });
    canvas.addEventListener("click", (event) => !timeline.wasDragged && timeline.clickAt(...at(event)));
    canvas.addEventListener("dblclick", () => range.choose(null));
    canvas.addEventListener("pointerleave", () => timeline.tip.hide());
    canvas.addEventListener(
        "wheel",
        (event) => {
            if (!event.ctrlKey && !event.metaKey) return; // without a key the wheel scrolls the page
            event.preventDefault();
            range.zoom(event.deltaY < 0 ? ZOOM : 1 / ZOOM, timeline.timeAt(event.offsetX));
        },
        { passive: false },
    );
}
