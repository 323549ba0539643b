// The state of a chart in the query of the page's address (`<chart>.<key>=<value>`), so that it can be shared.
// The address is replaced, not added to: "back" leaves the page.

/** Returns the state of a chart: `get(key)` returns text or null, `set(key, value)` with null removes it. */
export function urlState(chartId) {
    const name = (key) => `${chartId}.${key}`;
    return {
        get: (key) => new URL(location.href).searchParams.get(name(key)),
        set(key, value) {
            const address = new URL(location.href);
            if (value === null || value === "") address.searchParams.delete(name(key));
            else address.searchParams.set(name(key), value);
            if (address.href !== location.href) history.replaceState(history.state, "", address);
        },
    };
}
