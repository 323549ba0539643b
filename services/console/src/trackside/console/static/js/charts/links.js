// Addresses of rows, made from a template of the chart's options such as "/trials/{id}".

/** Returns the address of a row, or null if there is no template or a column of it is missing. */
export function hrefOf(template, table, row) {
    if (!template || row === undefined || row === null) return null;
    let isComplete = true;
    const address = template.replaceAll(/\{(\w+)\}/g, (_, name) => {
        const value = table.has(name) ? table.cell(name, row) : null;
        isComplete &&= value !== null;
        return encodeURIComponent(value ?? "");
    });
    // Only addresses of the console: a value of a task can't make a link to another place.
    return isComplete && address.startsWith("/") && !address.startsWith("//") ? address : null;
}

/** Opens the page of a row, if it has one. */
export function openHref(template, table, row) {
    const address = hrefOf(template, table, row);
    if (address) location.assign(address);
}
