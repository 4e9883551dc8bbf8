// What a person would see wrong on the page: returns complaints, an empty list if there are none.
// Evaluated as the body of a function.
const complaints = [];
const shown = (element) => element.checkVisibility();
const named = (element) => `${element.tagName.toLowerCase()} "${element.textContent.trim().slice(0, 40)}"`;

// Nothing is wider than the window but what scrolls in a box of its own.
if (document.documentElement.scrollWidth > innerWidth) complaints.push(`the page is ${document.documentElement.scrollWidth} wide`);
for (const element of document.body.querySelectorAll("*")) {
  if (!shown(element) || element.closest(".scrolls > *")) continue;
  const box = element.getBoundingClientRect();
  if (box.right > innerWidth + 0.5 || box.left < -0.5) complaints.push(`${named(element)} leaves the window`);
}

// Cells hold what is in them, and hold it beside each other.
for (const cell of document.querySelectorAll("th, td, dt, dd")) {
  if (shown(cell) && cell.scrollWidth > cell.clientWidth + 1) complaints.push(`${named(cell)} leaves its cell`);
}

// Text can be read: large enough, and in no picture cut off or written over other text.
const size = (element) => parseFloat(getComputedStyle(element).fontSize);
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const element = texts.currentNode.parentElement;
  if (!texts.currentNode.data.trim() || !shown(element) || element.closest("svg")) continue;
  if (size(element) < 11) complaints.push(`${named(element)} is ${size(element)}px`);
}
for (const picture of document.querySelectorAll("svg")) {
  if (!shown(picture)) continue;
  const frame = picture.getBoundingClientRect();
  const scale = frame.width / picture.viewBox.baseVal.width;
  const written = [...picture.querySelectorAll("text")].map((element) => ({ element, box: element.getBBox() }));
  for (const { element, box } of written) {
    if (size(element) * scale < 11) complaints.push(`${named(element)} is ${size(element) * scale}px`);
    const { width, height } = picture.viewBox.baseVal;
    if (box.x < -1 || box.y < -1 || box.x + box.width > width + 1 || box.y + box.height > height + 1)
      complaints.push(`${named(element)} is cut off`);
  }
  written.forEach(({ element, box }, index) => {
    for (const other of written.slice(index + 1)) {
      const across = Math.min(box.x + box.width, other.box.x + other.box.width) - Math.max(box.x, other.box.x);
      const down = Math.min(box.y + box.height, other.box.y + other.box.height) - Math.max(box.y, other.box.y);
      if (across > 0.5 && down > 2) complaints.push(`${named(element)} lies on ${named(other.element)}`);
    }
  });
}

// Contrast as WCAG 2 has it: 4.5 for text, 3 for what is drawn.
const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
const over = ([r, g, b, a = 1], below) => [r, g, b].map((value, index) => value * a + below[index] * (1 - a));
const luminance = (colour) =>
  [0.2126, 0.7152, 0.0722]
    .map((part, index) => {
      const value = colour[index] / 255;
      return part * (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    })
    .reduce((sum, value) => sum + value);
const contrast = (one, other) => {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
};
const paper = numbers(getComputedStyle(document.body).backgroundColor);
const ground = (element) => {
  const colour = numbers(getComputedStyle(element).backgroundColor);
  return element === document.body ? paper : over(colour, ground(element.parentElement));
};
const expect = (element, found, least) => {
  if (found < least) complaints.push(`${named(element)} .${element.getAttribute("class")}: contrast ${found.toFixed(2)}`);
};
for (const element of document.body.querySelectorAll("*")) {
  if (!shown(element) || element.closest("svg")) continue;
  if (![...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim())) continue;
  expect(element, contrast(over(numbers(getComputedStyle(element).color), ground(element)), ground(element)), 4.5);
}
for (const element of document.querySelectorAll("svg text")) {
  if (!shown(element)) continue;
  expect(element, contrast(numbers(getComputedStyle(element).fill), paper), 4.5);
}
for (const element of [...document.querySelectorAll("svg *")].filter(shown)) {
  if (!element.matches(".bar:not(.together, .unclear), .curve, .interval, .point, .mark")) continue;
  const style = getComputedStyle(element);
  const colour = style.fill === "none" || element.matches(".interval, .mark") ? style.stroke : style.fill;
  expect(element, contrast(over([...numbers(colour).slice(0, 3), Number(style.fillOpacity)], paper), paper), 3);
}
return complaints;
