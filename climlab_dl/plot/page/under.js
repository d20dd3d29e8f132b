// Tells what lies under the pointer, of which `value` is the cell: place, value, class, chances, storm; a line each.
if (value < 0) return '';
const {data} = frames, at = t * count + value, told = [place(value)];
const name = channel.value;
if (data[name] != null) {
  const field = valueOf(name, value, t);
  told.push(`${name} ${isNaN(field) ? 'no data' : `${+field.toPrecision(5)} ${styles[name].unit}`}`);
}
const said = kind => kind === unknown ? 'unknown' : classes[kind] ?? `class ${kind}`;
if (data.mask != null) {
  told.push(said(data.mask[at]) + (data.truth == null ? '' : `, truth ${said(data.truth[at])}`));
}
const chances = classes.flatMap(kind => {
  const chance = data[`probability ${kind}`]?.[at];
  return chance == null || chance === unknown ? [] : [`${kind} ${(chance / certain * 100).toFixed(1)} %`];
});
if (chances.length > 0) told.push(`probability: ${chances.join(', ')}`);
const row = stormAt(value);
if (row >= 0) told.push(`event ${storms.here.data.event[row]}, track ${storms.here.data.track[row]}`);
return told.join('\n');
