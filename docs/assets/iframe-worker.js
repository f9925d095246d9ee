/* Search from the disk: browsers refuse workers of file: addresses, so a hidden frame takes the place of the worker. */
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      this.inside = this.frame.contentWindow;
      this.inside.postMessage = (data) => setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })));
      const script = this.inside.document.createElement("script");
      this.ready = new Promise((resolve) => (script.onload = resolve));
      script.src = new URL(address, document.baseURI);
      this.inside.document.body.append(script);
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
