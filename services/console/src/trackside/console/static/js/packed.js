// Decodes bulk data: named columns of numbers, as the console sends them for charts.
//
// Body: header length (unsigned 32 bits), header (JSON in UTF-8), zeros up to a multiple of 8 bytes, then the bytes of
// each column, each padded with zeros to a multiple of 8. All numbers are little-endian.
// Header: {"columns": [{"name", "type": "f8" | "f4" | "i4" | "i8", "length", "labels"?: [text, ...]}], "meta": {...}}
// A missing number is NaN. A column with labels is "i4": indices of `labels`, -1 where there is none.

const ARRAYS = { f8: Float64Array, f4: Float32Array, i4: Int32Array, i8: BigInt64Array };

/**
 * A column: its name, its numbers, and for a column of texts the labels that the numbers index.
 * @typedef {{name: string, values: ArrayLike<number>, labels: string[] | null}} Column
 */

/** Columns of one length by name, in the order of the answer, and what else the chart needs. */
export class Table {
    /** @param {Column[]} columns @param {object} meta */
    constructor(columns, meta = {}) {
        this.columns = columns;
        this.meta = meta;
        this.byName = new Map(columns.map((column) => [column.name, column]));
        this.length = columns.length ? columns[0].values.length : 0;
    }

    /** Returns whether there is a column of this name. */
    has(name) {
        return this.byName.has(name);
    }

    /** Returns the column of a name, or throws an error that names the columns there are. */
    column(name) {
        const column = this.byName.get(name);
        if (!column)
            throw new Error(
                `There is no column ${name}; the data have ${[...this.byName.keys()].join(", ")}.`,
            );
        return column;
    }

    /** Returns a cell as a number, or as text if its column has labels; null where it is missing. */
    cell(name, row) {
        const { values, labels } = this.column(name);
        const value = values[row];
        if (labels) return value >= 0 ? (labels[value] ?? null) : null;
        return Number.isNaN(value) ? null : value;
    }
}

/** Returns the table in a packed body (ArrayBuffer). Throws RangeError or SyntaxError if the body is cut or invalid. */
export function decode(body) {
    const headerLength = new DataView(body).getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(body, 4, headerLength)));
    let offset = padded(4 + headerLength);
    const columns = header.columns.map(({ name, type, length, labels = null }) => {
        const array = ARRAYS[type];
        if (!array) throw new RangeError(`Column ${name} has the unknown type ${type}.`);
        const values = new array(body, offset, length);
        offset = padded(offset + values.byteLength);
        return { name, values: type === "i8" ? Float64Array.from(values, Number) : values, labels };
    });
    return new Table(columns, header.meta ?? {});
}

/** Returns the table in an answer of JSON: {"columns": [{"name", "values", "labels"?}], "meta"}; null is missing. */
export function fromJson({ columns = [], meta = {} }) {
    return new Table(
        columns.map(({ name, values, labels = null }) => ({
            name,
            values: Float64Array.from(values, (value) => value ?? (labels ? -1 : NaN)),
            labels,
        })),
        meta,
    );
}

/** Returns the table at an address. Throws an Error with the server's text if it refuses. */
export async function load(address, signal) {
    const answer = await fetch(address, {
        signal,
        headers: { Accept: "application/octet-stream, application/json" },
    });
    const isJson = (answer.headers.get("content-type") ?? "").startsWith("application/json");
    if (!answer.ok) throw new Error(await refusal(answer, isJson));
    return isJson ? fromJson(await answer.json()) : decode(await answer.arrayBuffer());
}

async function refusal(answer, isJson) {
    const text = await answer.text();
    if (isJson) {
        const { detail } = JSON.parse(text);
        if (typeof detail === "string") return detail;
    } else if ((answer.headers.get("content-type") ?? "").startsWith("text/plain") && text) {
        return text;
    }
    return `The console answered ${answer.status} ${answer.statusText}.`;
}

function padded(length) {
    return Math.ceil(length / 8) * 8;
}
