// What the scripts below share: the snapshot's position in `frames`, a cell's place, a channel's value in a cell.
const t = live ? 0 : slider.value;
const place = cell => {
  const north = lat[Math.floor(cell / lon.length)], east = lon[cell % lon.length] % 360;
  return `${Math.abs(north).toFixed(2)}°${north < 0 ? 'S' : 'N'} ${east.toFixed(2)}°E`;
};
const valueOf = (name, cell, t) => {
  const number = frames.data[name][t * count + cell];
  return number === -32768 ? NaN : frames.data[name + ' offset'][t] + frames.data[name + ' scale'][t] * number;
};
