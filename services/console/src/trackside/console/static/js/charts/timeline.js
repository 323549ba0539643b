// Bars over time in rows, such as what ran on each device (an own canvas: 100,000 bars are drawn in a few ms).
//
// Columns: row (labels), start and end in ms (end NaN: still running), state (labels; none and no end: running), optionally label (labels) and id
// (labels or numbers). Options: row, start, end, state, label (column names), href ("/tasks/{id}"), from, to (ms: the
// range that is shown first). Zoom: drag, Ctrl and the wheel, or the buttons; double click shows everything.

import { palette, statusColors } from "./palette.js";
import { hrefOf, openHref } from "./links.js";
import { make, makeTip, timeText, tipContent } from "./text.js";
import { durationText } from "../times.js";
import { timeTicks } from "./time_axis.js";
import { followPointer, rangeButtons, TimeRange } from "./time_range.js";
import { barAt, barsOf } from "./timeline_bars.js";

const ROW_PX = 22;
const BAR_PX = 15;
const AXIS_PX = 24;
const NAMES_SHARE = 0.34;
const NAMES_LIMIT_PX = 170;
const SMALLEST_TEXT_PX = 44;
const MARK_PX = 5;
const FAILURE = /fail|error|exception|lost|oom|timed_out/i;

/** Draws the timeline. */
export function create(context) {
    return new Timeline(context);
}

class Timeline {
    constructor(context) {
        Object.assign(this, context);
        this.times = new Set([context.options.start ?? "start", context.options.end ?? "end"]);
        this.canvas = make("canvas", "timeline-canvas");
        this.legend = make("div", "timeline-legend");
        this.body.dataset.fit = "";
        this.body.tabIndex = 0;
        this.body.append(this.canvas);
        this.body.after(this.legend);
        this.tip = makeTip(this.body);
        this.range = new TimeRange(this.state, () => this.showRange());
        this.names = [];
        rangeButtons(this.tools, this.range);
        followPointer(this.canvas, this);
    }

    draw(table) {
        this.table = table;
        // Of a narrower range the rows are those of everything, so that they stay where they are.
        if (!this.isNarrow) this.names = table.column(this.options.row ?? "row").labels;
        this.bars = barsOf(table, this.options, this.names);
        if (!this.isNarrow)
            this.range.setWhole(this.options.from ?? this.bars.from, this.options.to ?? this.bars.to);
        this.colorOf = statusColors();
        this.isFailure = this.bars.states.map((state) => FAILURE.test(state));
        this.stateColors = this.bars.states.map((state) => this.colorOf(state));
        this.showLegend();
        this.size();
        if (!this.isNarrow && this.range.chosen) this.showRange();
    }

    size() {
        const width = this.body.clientWidth;
        const height = this.bars.rows.length * ROW_PX + AXIS_PX;
        this.width = width;
        this.height = height;
        this.left = Math.min(NAMES_LIMIT_PX, Math.round(width * NAMES_SHARE));
        this.canvas.width = Math.round(width * devicePixelRatio);
        this.canvas.height = Math.round(height * devicePixelRatio);
        this.canvas.style.height = `${height}px`;
        this.paint();
    }

    showRange() {
        this.paint();
        const { chosen } = this.range;
        this.isNarrow = Boolean(this.options.refine && chosen);
        this.narrow(chosen && { from: Math.floor(chosen[0]), to: Math.ceil(chosen[1]) });
    }

    resize() {
        if (this.table) this.size();
    }

    /** Paints in the next frame, once for all changes before it. */
    paint() {
        if (!this.table || this.frame) return;
        this.frame = requestAnimationFrame(() => {
            this.frame = 0;
            this.paintNow();
        });
    }

    paintNow() {
        const colors = palette();
        const pen = this.canvas.getContext("2d");
        pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
        pen.clearRect(0, 0, this.width, this.height);
        pen.textBaseline = "middle";
        this.paintAxis(pen, colors);
        pen.save();
        pen.beginPath();
        pen.rect(this.left, AXIS_PX, this.width - this.left, this.height);
        pen.clip();
        this.bars.rows.forEach((row, index) => this.paintRow(pen, row, AXIS_PX + index * ROW_PX, colors));
        pen.restore();
        this.paintNames(pen, colors);
        if (this.dragged) {
            pen.fillStyle = `${colors.accent}2e`;
            pen.fillRect(this.dragged[0], AXIS_PX, this.dragged[1] - this.dragged[0], this.height);
        }
    }

    x(ms) {
        const { from, to } = this.range;
        return this.left + ((ms - from) / (to - from)) * (this.width - this.left);
    }

    /** Returns the time in ms at a pixel of the canvas. */
    timeAt(x) {
        const { from, to } = this.range;
        return from + ((x - this.left) / (this.width - this.left)) * (to - from);
    }

    paintAxis(pen, colors) {
        pen.font = `11px ${colors.font}`;
        pen.textAlign = "center";
        pen.lineWidth = 1;
        for (const { at, text } of timeTicks(this.range.from, this.range.to, this.width - this.left)) {
            const x = Math.round(this.x(at)) + 0.5;
            pen.strokeStyle = colors.grid;
            pen.beginPath();
            pen.moveTo(x, AXIS_PX - 4);
            pen.lineTo(x, this.height);
            pen.stroke();
            pen.fillStyle = colors.muted;
            if (x > this.left + 24 && x < this.width - 24) pen.fillText(text, x, AXIS_PX / 2 - 1);
        }
    }

    paintNames(pen, colors) {
        pen.textAlign = "left";
        pen.font = `12px ${colors.font}`;
        pen.save();
        pen.beginPath();
        pen.rect(0, 0, this.left - 8, this.height);
        pen.clip();
        pen.fillStyle = colors.text;
        this.bars.rows.forEach(({ name }, index) =>
            pen.fillText(name, 2, AXIS_PX + index * ROW_PX + ROW_PX / 2),
        );
        pen.restore();
        pen.strokeStyle = colors.grid;
        pen.beginPath();
        for (let index = 0; index <= this.bars.rows.length; index++) {
            pen.moveTo(0, AXIS_PX + index * ROW_PX + 0.5);
            pen.lineTo(this.width, AXIS_PX + index * ROW_PX + 0.5);
        }
        pen.stroke();
    }

    paintRow(pen, row, top, colors) {
        const { start, end, state } = this.bars;
        const y = top + (ROW_PX - BAR_PX) / 2;
        let painted = -1; // a bar within the pixel of the one before is not visible; if it failed, it gets a mark
        for (let at = row.first(this.range.from); at < row.bars.length; at++) {
            const bar = row.bars[at];
            if (start[bar] > this.range.to) break;
            const left = this.x(start[bar]);
            const right = Math.max(this.x(end[bar]), left + 1);
            if (right <= painted + 0.5) {
                if (this.isFailure[state[bar]]) this.paintMark(pen, left, y, state[bar]);
                continue;
            }
            painted = right;
            const width = Math.max(1, right - left - (right - left > 3 ? 1 : 0));
            pen.fillStyle = this.stateColors[state[bar]] ?? colors.muted;
            pen.fillRect(left, y, width, BAR_PX);
            if (width > SMALLEST_TEXT_PX) this.paintText(pen, bar, left, width, y, colors);
        }
    }

    paintMark(pen, x, y, state) {
        pen.fillStyle = this.stateColors[state];
        pen.fillRect(x, y + BAR_PX - MARK_PX, 1, MARK_PX);
    }

    paintText(pen, bar, left, width, y, colors) {
        const text = this.bars.text(bar);
        if (!text) return;
        pen.save();
        pen.beginPath();
        pen.rect(left, y, width - 4, BAR_PX);
        pen.clip();
        pen.fillStyle = colors.surface;
        pen.font = `11px ${colors.font}`;
        pen.textAlign = "left";
        pen.fillText(text, Math.max(left, this.left) + 5, y + BAR_PX / 2 + 0.5);
        pen.restore();
    }

    /** Returns the index of the bar at a pixel, or -1. */
    barAt(x, y) {
        const row = this.bars.rows[Math.floor((y - AXIS_PX) / ROW_PX)];
        if (!row || x < this.left) return -1;
        const slack = ((this.range.to - this.range.from) / (this.width - this.left)) * 2;
        return barAt(this.bars, row, this.timeAt(x), slack);
    }

    pointAt(x, y) {
        const bar = this.barAt(x, y);
        this.canvas.style.cursor = bar >= 0 && hrefOf(this.options.href, this.table, bar) ? "pointer" : "";
        if (bar < 0) return this.tip.hide();
        const { start, end, state, states, isOpen } = this.bars;
        const status = states[state[bar]] ?? "-";
        const lines = [
            [this.stateColors[state[bar]] ?? null, "state", status.toLowerCase().replaceAll("_", " ")],
            [null, "start", timeText(start[bar])],
            [null, "end", isOpen(bar) ? "running" : timeText(end[bar])],
            [null, "length", durationText((end[bar] - start[bar]) / 1000)],
        ];
        this.tip.show(tipContent(this.bars.text(bar) || status, lines), x, y);
    }

    clickAt(x, y) {
        const bar = this.barAt(x, y);
        if (bar >= 0) openHref(this.options.href, this.table, bar);
    }

    showLegend() {
        this.legend.replaceChildren(
            ...this.bars.states.map((state) => {
                const entry = make("span", "", state.toLowerCase().replaceAll("_", " "));
                entry.dataset.status = state;
                return entry;
            }),
        );
    }

    close() {
        cancelAnimationFrame(this.frame);
        this.body.removeAttribute("tabindex");
        this.legend.remove();
    }
}
