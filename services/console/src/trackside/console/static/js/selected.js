// Sends the forms of one action for all selected experiments: <button data-send-all="stop"> sends each form[data-of="stop"],
// one after another. A form without an answer keeps its command id: sent again, the command has the effect of once.

async function sendAll(button) {
    const forms = [...document.querySelectorAll(`form[data-of="${CSS.escape(button.dataset.sendAll)}"]`)];
    button.disabled = true;
    for (const form of forms) {
        const sent = new Promise((done) =>
            form.addEventListener("htmx:afterRequest", done, { once: true }),
        );
        htmx.trigger(form, "submit");
        await sent;
    }
    button.disabled = false;
}

/** Starts the buttons that send several forms. */
export function startSelected() {
    document.addEventListener("click", (event) => {
        const button = event.target.closest("[data-send-all]");
        if (button) sendAll(button);
    });
}
