"""A person before RabbitMQ's management UI, in Chromium. Every step ends with a look whether a script has failed."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

from interop.patience import PATIENCE_S
from tests.support.left_out import NEEDS

FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1400,1600",
)
POLL_S: Final = 0.02
#: All requests are answered, and what came is shown.
IDLE: Final = "return typeof outstanding_reqs != 'undefined' && outstanding_reqs.length == 0 && jQuery.active == 0"
#: The form with this action and method whose fields hold these values.
FORM: Final = """
const [action, method, holding] = arguments
const holds = form => Object.entries(holding).every(([name, value]) =>
  [...form.elements].some(field => field.name == name && field.value == value))
const forms = [...document.querySelectorAll(`form[action="${action}"][method="${method}"]`)]
return forms.find(holds) || null
"""
#: The link with these words in a part of the page.
LINK: Final = """
const [where, words] = arguments
const links = $(where).find('a').toArray()
return links.find(link => link.innerText.trim() == words) || null
"""


@contextmanager
def browser(folder: Path) -> Iterator[webdriver.Chrome]:
    """Chromium with a profile of its own; skips the test where it is not installed."""
    program, driver_program = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver_program is None:
        pytest.skip(f"{NEEDS}Chromium (Debian's chromium and chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.unhandled_prompt_behavior = "accept"  # "Are you sure?"
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.add_experimental_option("prefs", {"download.default_directory": str(folder)})
    driver = webdriver.Chrome(options, Service(driver_program))
    try:
        yield driver
    finally:
        driver.quit()


class Ui:
    """The pages, by their addresses and words."""

    def __init__(self, driver: webdriver.Chrome, url: str, downloads: Path) -> None:
        self.driver = driver
        self.url = url
        self.downloads = downloads

    # Looking

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        try:
            return WebDriverWait(self.driver, PATIENCE_S, POLL_S).until(lambda _: condition())
        except TimeoutException:
            pytest.fail(f"not so: {what}. The page says:\n{self.text}")

    @property
    def text(self) -> str:
        return str(self.driver.execute_script("return document.body.innerText"))

    def sees(self, *words: str) -> None:
        """Waits until the page shows all of these."""
        self.wait(lambda: all(map(self.text.__contains__, words)), f"the page shows {', '.join(words)}")
        self.check()

    def misses(self, word: str) -> None:
        self.wait(lambda: word not in self.driver.find_element(By.ID, "main").text, f"{word!r} is gone from the page")
        self.check()

    def settle(self) -> None:
        """Waits until nothing is under way."""
        self.wait(lambda: self.driver.execute_script(IDLE), "all requests are answered")
        self.check()

    def check(self) -> None:
        """No script failed, no request was refused, and no template could not be shown."""
        entries = self.driver.get_log("browser")
        bad = [entry["message"] for entry in entries if entry["level"] == "SEVERE" or "Uncaught" in entry["message"]]
        assert bad == [], f"{self.driver.current_url}: {bad}"
        script = "return $('#debug').text() + $('.form-popup-warn').text() + $('.status-error').text()"
        shown = self.driver.execute_script(script)
        assert not shown, f"{self.driver.current_url}: {shown}"

    # Going

    def log_out(self) -> None:
        self.driver.find_element(By.CSS_SELECTOR, "#logout input").click()
        self.wait(lambda: self.driver.find_elements(By.ID, "login"), "the login form is there")

    def log_in(self, name: str = "guest", password: str = "guest") -> None:
        """From then on nothing is refreshed but when a test says so."""
        self.try_to_log_in(name, password)
        self.sees("User " + name)
        self._set_up()

    def start_over(self) -> None:
        """With all that the page remembers, filters say, forgotten."""
        self.driver.execute_script("localStorage.clear()")
        self.driver.refresh()
        self.sees("User ")
        self._set_up()

    def _set_up(self) -> None:
        self.driver.execute_script("jQuery.fx.off = true")  # sections open at once
        Select(self.driver.find_element(By.ID, "update-every")).select_by_visible_text("Do not refresh")
        self.settle()

    def try_to_log_in(self, name: str, password: str) -> None:
        self.driver.get(self.url)
        self.wait(lambda: self.driver.find_elements(By.NAME, "username"), "the login form is there")
        self.driver.find_element(By.NAME, "username").send_keys(name)
        self.driver.find_element(By.NAME, "password").send_keys(password)
        self.driver.find_element(By.CSS_SELECTOR, "#login input[type=submit]").click()

    def go(self, place: str, *words: str) -> None:
        """A page by its address, all of its sections opened; it must show these words, and again after a refresh."""
        self.driver.execute_script("window.location.hash = arguments[0]", place)
        self.settle()
        self.open_sections()
        self.sees(*words)
        self.driver.execute_script("partial_update()")
        self.settle()
        self.sees(*words)

    def click(self, words: str, *shown: str) -> None:
        """A link of the page."""
        self._follow("#main", words, shown)

    def open_tab(self, words: str, *shown: str) -> None:
        """A tab, or one of Admin's on the right."""
        self._follow("#menu, #rhs", words, shown)

    def _follow(self, where: str, words: str, shown: tuple[str, ...]) -> None:
        link = self.wait(lambda: self.driver.execute_script(LINK, where, words), f"the page has a link {words!r}")
        self.press(link)
        self.settle()
        self.open_sections()
        self.sees(*shown)

    def open_sections(self) -> None:
        """Those that are shown by their heading alone."""
        self.driver.execute_script(
            "$('#main .section-hidden, #main .section-invisible').not('.section-visible').children('h2').click()"
        )

    # Doing

    def form(self, action: str, method: str, **holding: str) -> WebElement:
        """The form that does this; of several, the one whose fields hold these values."""

        def found() -> WebElement | None:
            form: WebElement | None = self.driver.execute_script(FORM, action, method, holding)
            return form

        form: WebElement = self.wait(found, f"the form {method} {action} with {holding}")
        return form

    def submit(self, action: str, method: str, holding: dict[str, str] | None = None, **fields: str) -> None:
        """Fill in a form and send it. With `expect="warn"` the page warns, as it should."""
        expected = fields.pop("expect", "")
        form = self.form(action, method, **(holding or {}))
        for name, value in fields.items():
            self.fill(form, name, value)
        self.press(form.find_element(By.CSS_SELECTOR, "input[type=submit]"))
        if expected != "warn":
            self.settle()
            self.open_sections()

    def press(self, element: WebElement) -> None:
        """Where the page's header does not cover it."""
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def fill(self, form: WebElement, name: str, value: str) -> None:
        field = form.find_element(By.CSS_SELECTOR, f'[name="{name.replace("__", "-")}"]')
        if field.tag_name == "select":
            Select(field).select_by_value(value)
            return
        field.clear()
        field.send_keys(value)

    def type(self, field_id: str, words: str) -> None:
        """Into a field outside of forms."""
        field = self.driver.find_element(By.ID, field_id)
        field.clear()
        field.send_keys(words)

    def add_argument(self, form: WebElement, key: str, value: str) -> None:
        """One of the arguments that a form offers by a link."""
        link = form.find_element(By.CSS_SELECTOR, f'.argument-link[key="{key}"]')
        group = link.get_attribute("field")
        link.click()
        rows = form.find_elements(By.CSS_SELECTOR, f'[name^="{group}_"][name$="_mfkey"]')
        (row,) = [each for each in rows if each.get_attribute("value") == key]
        name = str(row.get_attribute("name")).replace("_mfkey", "_mfvalue")
        self.fill(form, name, value)

    def close_popup(self, words: str, kind: str = "info") -> None:
        """The page says this, and is told that it was read."""
        popup = f".form-popup-{kind}"
        self.wait(lambda: words in self.text, f"the page says {words!r}")
        self.driver.find_element(By.CSS_SELECTOR, f"{popup} span").click()
        self.wait(lambda: not self.driver.find_elements(By.CSS_SELECTOR, popup), "the popup is gone")
        self.check()
