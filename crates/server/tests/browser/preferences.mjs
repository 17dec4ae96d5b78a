// A reader without JavaScript: looks at the hosted pages, fills them in with the keyboard, and says what it saw as JSON.
// Called by tests/it/hosted.rs: node preferences.mjs PREFERENCES_URL UNSUBSCRIBE_URL [DIRECTORY FOR SCREENSHOTS]
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [preferencesUrl, unsubscribeUrl, pictures] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});
const seen = { violations: [], foreign: [], refused: [], scrollsSideways: false };
// Something that never comes is a failure, not a wait without end.
setTimeout(() => process.exit(9), 120_000).unref();

/** A tab of its own; every request to another origin, and everything the policy refuses, is noted. */
async function open(url, options = {}) {
  const context = await browser.newContext({ javaScriptEnabled: false, ...options });
  const page = await context.newPage();
  const origin = new URL(url).origin;
  page.on("request", (one) => new URL(one.url()).origin === origin || seen.foreign.push(one.url()));
  page.on("console", (one) => /Content Security Policy/.test(one.text()) && seen.refused.push(one.text()));
  await page.goto(url);
  return page;
}

/** What axe finds wrong: the rules of WCAG 2.2, levels A and AA, and the contrast of AAA. It needs scripts: it gets a copy. */
async function judge(page, name, options = {}) {
  const run = `${axe}; axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"],
    rules: {"color-contrast-enhanced": {enabled: true}}})`;
  const context = await browser.newContext(options);
  const copy = await context.newPage();
  await copy.setContent(await page.content());
  const { violations, passes } = await copy.evaluate(run);
  if (passes.length < 10) throw new Error(`${name}: axe looked at next to nothing`);
  seen.violations.push(...violations.map((one) => `${name}: ${one.id}: ${one.nodes[0].html}`));
  seen.scrollsSideways ||= await copy.evaluate("document.documentElement.scrollWidth > innerWidth");
  if (pictures) await page.screenshot({ path: `${pictures}/${name}.png`, fullPage: true });
  await context.close();
}

const page = await open(preferencesUrl, { locale: "de-AT" });
seen.lang = await page.getAttribute("html", "lang");
await judge(page, "preferences");
// By the keyboard alone: the first thing that can be reached is the switch for everything.
await page.keyboard.press("Tab");
seen.first = await page.locator(":focus").getAttribute("name");
await page.getByLabel("E-Mail").uncheck();
await page.getByLabel("likes").uncheck();
await page.getByLabel("Zu diesen Zeiten nicht stören").check();
await page.getByLabel("Von").fill("21:30");
await page.getByLabel("Sonntag").uncheck();
await page.getByLabel("Zeitzone").selectOption("Europe/Vienna");
await page.getByRole("button", { name: "Speichern" }).focus();
await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
seen.saved = await page.getByRole("status").textContent();
seen.emailStaysOff = !(await page.getByLabel("E-Mail").isChecked());
await judge(page, "saved");

const dark = { viewport: { width: 320, height: 640 }, colorScheme: "dark" };
await judge(await open(preferencesUrl, dark), "narrow-dark", dark);

const leaving = await open(unsubscribeUrl, { locale: "en-GB" });
seen.promise = await leaving.getByText("You will get no more:").textContent();
await judge(leaving, "unsubscribe");
await Promise.all([leaving.waitForNavigation(), leaving.getByRole("button", { name: "Unsubscribe" }).click()]);
seen.left = await leaving.getByRole("status").textContent();
await judge(leaving, "left");

console.log(JSON.stringify(seen));
await browser.close();
