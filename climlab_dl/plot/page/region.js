// Tells the statistics of the boxed cells at this time, by their areas on the sphere.
const cells = boxed.data.cell, name = channel.value, {data} = frames;
told.visible = cells.length > 0;
if (cells.length === 0 || data[name] == null) return;
let area = 0, known = 0, sum = 0, low = Infinity, high = -Infinity;
const shares = classes.map(() => 0);
for (const cell of cells) {
  const weight = areas[Math.floor(cell / lon.length)], value = valueOf(name, cell, t);
  area += weight;
  if (data.mask != null && data.mask[t * count + cell] < classes.length) shares[data.mask[t * count + cell]] += weight;
  if (isNaN(value)) continue;
  known += weight;
  sum += weight * value;
  low = Math.min(low, value);
  high = Math.max(high, value);
}
const said = value => +value.toPrecision(5), {unit} = styles[name];
const lines = [`<b>Box</b>: ${cells.length} cells, ${(area / 1e6).toPrecision(3)} million km²`];
lines.push(known === 0 ? `${name}: no data` :
  `${name}: area-weighted mean ${said(sum / known)}, lowest ${said(low)}, highest ${said(high)} ${unit}`);
if (data.mask != null) {
  lines.push('share of the area: ' + classes.map((kind, k) => `${kind} ${(100 * shares[k] / area).toFixed(1)} %`).join(', '));
}
told.text = lines.join('<br>');
