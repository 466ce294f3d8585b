// Data files are scripts that call conform.put: a page opened from disk can run scripts, but fetch nothing.
const conform = (() => {
  const { folder } = document.documentElement.dataset;
  const values = new Map();
  const waiting = new Map();

  function put(name, text) {
    values.set(name, JSON.parse(text));
  }

  // The value of a data file; loads it once.
  function load(name) {
    if (values.has(name)) return Promise.resolve(values.get(name));
    if (!waiting.has(name)) {
      waiting.set(name, new Promise((resolve, reject) => {
        const node = make("script", { src: `${folder}/${name}.js` });
        const fail = () => {
          waiting.delete(name);
          reject(new Error(`The data file ${name} is missing. The site was rewritten or is incomplete: reload the page.`));
        };
        node.addEventListener("load", () => {
          if (!values.has(name)) return fail();
          waiting.delete(name);
          resolve(values.get(name));
        });
        node.addEventListener("error", fail);
        document.head.append(node);
        node.remove();
      }));
    }
    return waiting.get(name);
  }

  return { put, load };
})();

const FLOATS = { inf: Infinity, "-inf": -Infinity, nan: NaN };

// Decode a number of the data files; null stays null.
function float(value) {
  return typeof value === "string" ? FLOATS[value] : value;
}
