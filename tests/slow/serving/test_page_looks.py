"""The page in a real browser: phones, writing direction, motion, readers who do not see, and failures of the page."""

from tests.support.pages import GARDEN, HEBREW, conllu, parse, start


def test_words_stay_in_place_while_arcs_move_and_reduced_motion_is_respected(new_page, served):
    places = "all => all.map(each => [each.getAttribute('x'), each.getAttribute('y')].join())"
    moving = {}
    for motion in ("no-preference", "reduce"):
        page = new_page(reduced_motion=motion)
        parse(page, served, GARDEN)
        before = page.eval_on_selector_all("#drawing text.form", places)
        # In one script, because the animation is short.
        moving[motion] = page.evaluate("() => (previous.click(), document.getAnimations().length)")
        assert page.eval_on_selector_all("#drawing text.form", places) == before

    assert moving["no-preference"] > 0
    assert moving["reduce"] == 0


def test_an_error_of_the_page_itself_is_shown_and_ends_the_waiting(browser, served):
    page = browser.new_page()
    page.route("**/v1/steps", lambda route: route.fulfill(json={"sentences": [{"text": "Dogs"}]}))

    start(page, served)
    page.click("#parse")
    page.wait_for_selector("#problem >> text=The page failed")

    assert page.inner_text("#busy") == ""
    assert page.get_attribute("#drawing", "aria-busy") is None
    page.close()


def test_on_a_phone_the_page_does_not_scroll_sideways_and_right_to_left_words_start_in_view(new_page, served):
    page = new_page()
    page.set_viewport_size({"width": 320, "height": 640})
    parse(page, served, conllu(HEBREW * 3), model="tiny")
    page.click("summary")

    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert page.evaluate("document.getElementById('drawing').scrollWidth") > 320  # that does
    places = page.eval_on_selector_all("#drawing text.form", "all => all.map(each => each.getBoundingClientRect().x)")
    assert places == sorted(places, reverse=True)
    assert 0 < places[0] < 320  # the first word is visible
    assert page.get_attribute("#text", "dir") == "ltr"  # columns are not
    assert page.evaluate("getComputedStyle(document.getElementById('sentence-text')).direction") == "rtl"


def test_every_control_has_an_accessible_name_and_is_large_enough_to_click(page, served):
    parse(page, served, "Nobody knew why. They left.")
    page.click("summary")
    script = """all => all.filter(each => each.checkVisibility()).map(each => {
        const box = (each.closest('label') ?? each).getBoundingClientRect();
        const name = each.ariaLabel || each.labels?.[0]?.innerText || each.innerText;
        return [each.outerHTML.slice(0, 60), (name ?? '').trim(), Math.min(box.width, box.height)];
    })"""

    controls = page.eval_on_selector_all("button, input, select, textarea, summary", script)

    assert len(controls) > 10
    for control, name, size in controls:
        assert name, control
        assert size >= 24, control
    assert 'heading "Nobody knew why." [level=2]' in page.locator("main").aria_snapshot()
