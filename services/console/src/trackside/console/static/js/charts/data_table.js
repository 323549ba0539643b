// The data of a chart as an HTML table, for keyboards and screen readers.

import { cellText, make } from "./text.js";

const ROWS = 200;

/** Returns the first rows of a table as a scrolling box with an HTML table; `times` are the columns that are times. */
export function dataTable(table, title, times) {
    const head = make("tr", "");
    for (const { name, labels } of table.columns) {
        const cell = make("th", labels ? "" : "number", name.replaceAll("_", " "));
        cell.scope = "col";
        head.append(cell);
    }
    const body = make("tbody", "");
    for (let row = 0; row < Math.min(table.length, ROWS); row++) {
        const line = make("tr", "");
        for (const { name, labels } of table.columns) {
            line.append(make("td", labels ? "" : "number", cellText(table.cell(name, row), times.has(name))));
        }
        body.append(line);
    }
    const text = table.length > ROWS ? `The first ${ROWS} of ${table.length} rows` : `${table.length} rows`;
    const box = make(
        "div",
        "table-box",
        make("table", "", make("caption", "", text), make("thead", "", head), body),
    );
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", `Table: ${title}`);
    return box;
}
