# report_page.sh - the page of examples that page_test writes: valid HTML, and working in a browser.
# shellcheck source=tests/cli/helpers
. "$MUSEC_SOURCE/tests/cli/helpers"

page_test=$(dirname "$MUSEC")/tests/page_test
if ! [ -x "$page_test" ]; then
    skip "page_test is not built"
    finish
fi
if ! command -v rsvg-convert >/dev/null; then
    skip "rsvg-convert is not here"
    finish
fi
check "the page of examples" "$page_test" --demo .

three='["Soft Musec", "Musec", "SPECTRA"]'
six='["Soft Musec", "Musec", "SPECTRA", "Muon", "MuonClip", "AdamW"]'
four='["Soft Musec", "Musec", "SPECTRA", "Muon"]'
valid_page demo.html "{\"loss-lr\": [$six, $six, $six], \"training\": [$four, $four],
    \"time-step\": [$six], \"odd\": [[\"alone\"], [\"flat\"], $three]}"

# The check finds mistakes in a damaged page.
sed -e 's/class="curve line" data-label="Muon"/class="gone"/' \
    -e 's/nearest.set(p.group, p);/;/; s/box.before(hint);//; s/--good: #0b6b3a/--good: #a0d0a0/' \
    -e 's/.panels.one .large { display: none;/.panels.one .large { display: block; width: 50%;/' \
    -e 's/var(--paper)/#808080/; s/<main>/<main><img src="x.png" alt=""><div style="width: 2000px">wide<\/div>/' demo.html >bad.html
python3 "$MUSEC_SOURCE/tests/tools/page_check.py" bad.html >bad.txt 2>&1
case $? in
1)
    for words in 'refers to something outside' 'pixels wide on a screen' 'asks for' \
        ': the rows \[' 'a table is wide and says so: False' "the badge 'holds' can hardly be read" \
        'its panel does not fill the card'; do
        grep -q "$words" bad.txt && pass || fail "not found: $words: $(tail -3 bad.txt)"
    done
    ;;
77) ;;
*) fail "a bad page passes: $(cat bad.txt)" ;;
esac
finish
