// Asks for the statistics of the cells under the box.
const {type, x0, x1, y0, y1} = cb_obj.geometry;
if (type !== 'rect' || !cb_obj.final) return;
const [left, right, bottom, top] = extent, [height, width] = size, cells = image.data.cell[0];
const pixel = (at, low, high, pixels) => Math.max(0, Math.min(pixels - 1, Math.floor((at - low) / (high - low) * pixels)));
const inside = new Set();
for (let y = pixel(Math.min(y0, y1), bottom, top, height); y <= pixel(Math.max(y0, y1), bottom, top, height); y++) {
  for (let x = pixel(Math.min(x0, x1), left, right, width); x <= pixel(Math.max(x0, x1), left, right, width); x++) {
    if (cells[y * width + x] >= 0) inside.add(cells[y * width + x]);
  }
}
boxed.data = {cell: [...inside]};
