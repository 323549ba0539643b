// Loads uPlot, a classic script, once and only for pages that draw curves.

let loading = null;

/** Returns uPlot's class. Throws an Error if the script can't be loaded. */
export function loadUPlot() {
    loading ??= new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.src = new URL("../../vendor/uPlot.iife.min.js", import.meta.url);
        script.onload = () => resolve(window.uPlot);
        script.onerror = () => {
            loading = null;
            reject(new Error("The script that draws curves can't be loaded; reload the page."));
        };
        document.head.append(script);
    });
    return loading;
}
