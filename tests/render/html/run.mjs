// Calls functions of the report's scripts: reads {"scripts": [path], "calls": [[function, ...arguments]]}
// from standard input, and writes the list of what they return. A function that throws gives
// {"error": message}.
import { readFileSync } from "node:fs";
import vm from "node:vm";

const wanted = JSON.parse(readFileSync(0, "utf8"));
for (const path of wanted.scripts) {
  vm.runInThisContext(readFileSync(path, "utf8"), { filename: path });
}

const plain = (_, value) => (ArrayBuffer.isView(value) ? Array.from(value) : value);
const results = [];
for (const [name, ...given] of wanted.calls) {
  try {
    results.push(await vm.runInThisContext(name)(...given));
  } catch (error) {
    results.push({ error: error.message });
  }
}
process.stdout.write(JSON.stringify(results, plain));
