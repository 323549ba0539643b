// Finds the charts of the page, loads their data when they are visible, and draws them. The markup contract of each
// kind is in MARKUP.md in this folder.
//
//   <figure class="chart" id="loss" data-chart="lines" data-src="/data/..." data-options='{"y": "loss"}' data-live>
//     <figcaption>Loss</figcaption>
//   </figure>
//
// A module of charts/ exports create(context), which returns {draw(table), resize?(), close(), times?, asTable?(table),
// isText?}: `times` is the set of the columns that are times in ms, `asTable` returns what the table view shows instead
// of the data, `isText` says that screen readers can read the drawing. The context has the elements to draw in (`body`)
// and for controls (`tools`), `title`, `options`, the state in the address (`state`, see url_state.js), `note(text)`,
// which sets the line under the chart, and `narrow({from, to})`, which loads a range in more detail.

import { dataTable } from "./charts/data_table.js";
import { make } from "./charts/text.js";
import { urlState } from "./charts/url_state.js";
import { load } from "./packed.js";

const KINDS = {
    lines: () => import("./charts/lines.js"),
    best: () => import("./charts/best.js"),
    scatter: () => import("./charts/scatter.js"),
    front: () => import("./charts/scatter.js"),
    parallel: () => import("./charts/parallel.js"),
    slices: () => import("./charts/slices.js"),
    contour: () => import("./charts/contour.js"),
    importances: () => import("./charts/bars.js"),
    bars: () => import("./charts/bars.js"),
    histogram: () => import("./charts/bars.js"),
    heatmap: () => import("./charts/heatmap.js"),
    timeline: () => import("./charts/timeline.js"),
    graph: () => import("./charts/graph.js"),
    sankey: () => import("./charts/sankey.js"),
};
const SHORTEST_RELOAD_MS = 1000;
const SHARE = 6; // a chart loads again after this many times as long as it took, so that large ones leave time for others
const DRAG_MS = 300;
const NARROW_MS = 150; // several steps of a zoom are one request
const AHEAD = "200px";

const charts = new Map();

class Chart {
    constructor(figure) {
        this.figure = figure;
        this.title =
            figure.dataset.label ?? (figure.querySelector("figcaption")?.textContent.trim() || "Chart");
        this.body = make("div", "chart-body");
        this.body.append(skeleton());
        this.tools = make("div", "chart-tools");
        this.noteLine = make("p", "chart-note");
        this.noteLine.hidden = true;
        this.button = make("button", "button small chart-table-button", "Table");
        this.button.type = "button";
        this.button.hidden = true;
        this.button.setAttribute("aria-pressed", "false");
        this.button.setAttribute("aria-label", `Table of ${this.title}`);
        this.button.addEventListener("click", () => this.toggleTable());
        figure.append(this.tools, this.button, this.body, this.noteLine);
        this.isVisible = false;
        this.isStale = true;
        this.loadedMs = 0;
        this.tookMs = 0;
        this.timer = 0;
        this.drawing = null;
        this.table = null;
        this.address = "";
        this.width = 0;
        this.range = null;
        this.readMarkup();
    }

    readMarkup() {
        this.address = this.figure.dataset.src ?? "";
        try {
            this.options = JSON.parse(this.figure.dataset.options || "{}");
        } catch {
            this.options = {};
            console.error(`data-options of the chart ${this.figure.id} is not JSON`);
        }
    }

    /** Loads again soon, at most once a second; a chart out of sight loads when it is seen. */
    refresh() {
        this.isStale = true;
        if (!this.isVisible || document.hidden || this.timer) return;
        const pause = Math.max(SHORTEST_RELOAD_MS, SHARE * this.tookMs);
        const wait = Math.max(0, this.loadedMs + pause - Date.now());
        this.timer = setTimeout(() => this.load(), wait);
    }

    /**
     * Loads only what is between two values of x (or of time in ms), in more detail; null for everything. Only for charts
     * whose data address understands `from` and `to`: those with the option `refine`.
     */
    narrow(range) {
        if (!this.options.refine || JSON.stringify(range) === JSON.stringify(this.range)) return;
        this.range = range;
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.load(), NARROW_MS);
    }

    source() {
        if (!this.range) return this.address;
        const address = new URL(this.address, location.origin);
        address.searchParams.set("from", String(this.range.from));
        address.searchParams.set("to", String(this.range.to));
        return address.pathname + address.search;
    }

    async load() {
        if (this.body.matches(":active")) {
            this.timer = setTimeout(() => this.load(), DRAG_MS); // a new drawing would end the reader's drag
            return;
        }
        this.timer = 0;
        this.isStale = false;
        this.loadedMs = Date.now();
        this.abort?.abort();
        this.abort = new AbortController();
        const signal = this.abort.signal;
        try {
            const [module, table] = await Promise.all([this.module(), load(this.source(), signal)]);
            this.table = table;
            await this.draw(module);
            this.tookMs = Date.now() - this.loadedMs;
        } catch (error) {
            if (signal.aborted) return;
            this.fail(error.message);
        }
    }

    async module() {
        const kind = KINDS[this.figure.dataset.chart];
        if (!kind) throw new Error(`There is no chart of kind ${this.figure.dataset.chart}.`);
        return kind();
    }

    async draw(module) {
        const isEmpty = !this.table.length && !this.table.meta.nodes?.length;
        this.button.hidden = isEmpty;
        this.note(this.table.meta.note ?? "");
        if (isEmpty && this.range && this.drawing) return this.note("There are no values in this range.");
        if (isEmpty) return this.message(this.options.empty ?? "No data yet");
        if (!this.drawing) {
            this.body.replaceChildren();
            this.drawing = await module.create(this.context());
        }
        this.drawing.draw(this.table);
        if (this.drawing.isText !== true) {
            this.body.setAttribute("role", "img");
            this.body.setAttribute(
                "aria-label",
                this.drawing.summary?.(this.table) ?? `${this.title}: ${this.table.length} values`,
            );
        }
        if (this.tableBox) this.showTable();
    }

    context() {
        const { figure, body, tools, title, options } = this;
        return {
            figure,
            body,
            tools,
            title,
            options,
            state: urlState(figure.id),
            note: (text) => this.note(text),
            narrow: (range) => this.narrow(range),
        };
    }

    note(text) {
        this.noteLine.textContent = text;
        this.noteLine.hidden = !text;
    }

    message(text, isError = false) {
        this.closeDrawing();
        const box = make("div", isError ? "chart-message error" : "chart-message", text);
        if (isError) {
            const again = make("button", "button small", "Try again");
            again.type = "button";
            again.addEventListener("click", () => this.load());
            box.append(again);
        }
        this.body.replaceChildren(box);
    }

    /** Shows an error. A chart that has been drawn stays, with the error in the line below: its data are only older. */
    fail(text) {
        if (this.drawing) this.note(`${text} The chart shows earlier data.`);
        else this.message(text, true);
        this.isStale = true;
    }

    /** Draws everything again, after the theme or the options changed. */
    async redraw() {
        if (!this.table) return;
        this.closeDrawing();
        await this.draw(await this.module());
    }

    resize() {
        const width = this.body.clientWidth;
        if (!this.drawing || !width || width === this.width) return;
        this.width = width;
        this.drawing.resize?.();
    }

    toggleTable() {
        if (this.tableBox) {
            this.tableBox.remove();
            this.tableBox = null;
            this.body.hidden = false;
            this.drawing?.resize?.();
        } else {
            this.showTable();
            this.tableBox.focus();
        }
        this.button.setAttribute("aria-pressed", String(Boolean(this.tableBox)));
        this.button.textContent = this.tableBox ? "Chart" : "Table";
        this.button.setAttribute("aria-label", `${this.button.textContent} of ${this.title}`);
    }

    showTable() {
        const shown = this.drawing?.asTable?.(this.table) ?? this.table;
        const box = dataTable(shown, this.title, this.drawing?.times ?? new Set());
        if (this.tableBox) {
            const { scrollTop } = this.tableBox;
            this.tableBox.replaceWith(box);
            box.scrollTop = scrollTop;
        } else {
            this.body.after(box);
            this.body.hidden = true;
        }
        this.tableBox = box;
    }

    closeDrawing() {
        this.drawing?.close();
        this.drawing = null;
        this.tools.replaceChildren();
        this.body.replaceChildren();
        for (const name of ["data-fit", "role", "aria-label"]) this.body.removeAttribute(name);
    }

    close() {
        clearTimeout(this.timer);
        this.abort?.abort();
        this.drawing?.close();
    }
}

function skeleton() {
    const box = make("div", "skeleton");
    box.style.height = "100%";
    return box;
}

const seen = new IntersectionObserver(
    (entries) => {
        for (const { target, isIntersecting } of entries) {
            const chart = charts.get(target);
            if (!chart) continue;
            chart.isVisible = isIntersecting;
            if (isIntersecting && chart.isStale) chart.refresh();
        }
    },
    { rootMargin: AHEAD },
);

const sized = new ResizeObserver((entries) => {
    // In the next frame: a drawing that changes its own height must not notify the observer in the same one.
    requestAnimationFrame(() => entries.forEach(({ target }) => charts.get(target)?.resize()));
});

const changedMarkup = new MutationObserver((records) => {
    for (const { target } of records) {
        const chart = charts.get(target);
        if (!chart) continue;
        const before = chart.address;
        chart.readMarkup();
        if (chart.address === before) chart.redraw();
        else chart.refresh();
    }
});

/** Starts the charts that are new in the page, and ends those that are no longer in it. */
function findCharts() {
    for (const [figure, chart] of charts) {
        if (figure.isConnected) continue;
        chart.close();
        seen.unobserve(figure);
        sized.unobserve(figure);
        charts.delete(figure);
    }
    for (const figure of document.querySelectorAll("figure.chart[data-chart]")) {
        if (charts.has(figure)) continue;
        charts.set(figure, new Chart(figure));
        seen.observe(figure);
        sized.observe(figure);
        changedMarkup.observe(figure, { attributes: true, attributeFilter: ["data-src", "data-options"] });
    }
}

/** Whether a chart shows one of the changed streams; a chart without data-streams is changed by each. */
function isConcerned(figure, streams) {
    const own = figure.dataset.streams?.split(" ").filter(Boolean);
    return !streams || !own?.length || own.some((stream) => streams.includes(stream));
}

findCharts();
for (const name of ["console:morphed", "htmx:afterSettle"]) document.addEventListener(name, findCharts);
document.addEventListener("console:changed", ({ detail }) => {
    for (const [figure, chart] of charts) {
        if ("live" in figure.dataset && isConcerned(figure, detail.streams)) chart.refresh();
    }
});
document.addEventListener("console:theme", () => charts.forEach((chart) => chart.redraw()));
