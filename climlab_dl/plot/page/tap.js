// Asks for the series at the cell that was clicked, and picks the storm there: its region, else a mark close by.
const [left, right, bottom, top] = extent, [height, width] = size;
const x = Math.floor((cb_obj.x - left) / (right - left) * width);
const y = Math.floor((cb_obj.y - bottom) / (top - bottom) * height);
const cell = x < 0 || y < 0 || x >= width || y >= height ? -1 : image.data.cell[0][y * width + x];
if (cell < 0) return;
asked.data = {cell: [cell]};
if (storms == null) return;
const {data} = storms.here;
let row = stormAt(cell);
let closest = row < 0 ? 12 : 0;
const across = figure.frame_width / (figure.x_range.end - figure.x_range.start);
const up = figure.frame_height / (figure.y_range.end - figure.y_range.start);
for (let k = 0; k < data.x.length; k++) {
  const pixels = Math.hypot((data.x[k] - cb_obj.x) * across, (data.y[k] - cb_obj.y) * up);
  if (pixels < closest) [row, closest] = [k, pixels];
}
storms.here.tags = row < 0 ? [] : [data.track[row]];
storms.here.selected.indices = row < 0 ? [] : [row];
