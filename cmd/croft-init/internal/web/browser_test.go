package web_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/croft-edge/croft/cmd/croft-init/internal/console"
	"github.com/croft-edge/croft/internal/testing/browser"
)

// Expressions for what the page shows.
const (
	rows   = `[...document.querySelectorAll(".xterm-rows > div")].map((row) => row.textContent.trimEnd()).join("\n")`
	notice = `document.getElementById("notice").hidden ? "" : document.getElementById("notice").textContent`
	// looks are the pieces of text of one look: text, colour, background, weight, columns, classes.
	looks = `((columns) => {
		const cell = document.querySelector(".xterm-screen").clientWidth / columns;
		return [...document.querySelectorAll(".xterm-rows span")].map((span) => {
			const look = getComputedStyle(span);
			return [span.textContent.trim(), look.color, look.backgroundColor, look.fontWeight, Math.round(span.getBoundingClientRect().width / cell), span.className].join("|");
		}).join("\n");
	})`
)

// shown is the page in a browser, and the terminal that it opened.
type shown struct {
	*world
	*browser.Page
	terminal *fake
	size     console.Size // the first
}

func newShown(t *testing.T) *shown {
	t.Helper()
	s := &shown{world: newWorld(t, nil)}
	s.Page = browser.Open(t, browser.Config{URL: s.url("/")})
	s.terminal = s.world.terminal()
	s.size = s.resized()
	return s
}

// resized is the next size that the page tells.
func (s *shown) resized() console.Size {
	s.world.Helper()
	select {
	case size := <-s.terminal.sizes:
		return size
	case <-time.After(patience):
		s.world.Fatal("the page tells no size")
		return console.Size{}
	}
}

// writes writes a program's output.
func (s *shown) writes(text string) {
	s.world.Helper()
	if _, err := s.terminal.output.Write([]byte(text)); err != nil {
		s.world.Fatal(err)
	}
}

// reads reads what the page has typed, which must be want.
func (s *shown) reads(what, want string) {
	s.world.Helper()
	got, done := make([]byte, len(want)), make(chan error, 1)
	go func() {
		_, err := io.ReadFull(s.terminal.typed, got)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil || string(got) != want {
			s.world.Fatalf("%s: typed %q, must be %q, %v", what, got, want, err)
		}
	case <-time.After(patience):
		s.world.Fatalf("%s: not typed: %q", what, want)
	}
}

// TestPage opens the page in Chromium: everything that it promises is seen or done as its user does.
func TestPage(t *testing.T) {
	s := newShown(t)
	for _, part := range []func(*testing.T, *shown){
		testEmulator, testLooks, testTitle, testKeys, testMouse, testInputMethod, testClipboard, testHistory, testSize, testFlood, testEnd, testFault, testScreenReader,
	} {
		part(t, s)
	}
	if complaints := s.Complaints(); len(complaints) != 0 {
		t.Errorf("the browser complains: %q", complaints)
	}
	own := s.world.address.String()
	for _, request := range s.Requests() {
		if !strings.HasPrefix(request, "http://"+own+"/") && request != "ws://"+own+"/ws" && request != "about:blank" {
			t.Errorf("the page requests %s", request)
		}
	}
}

// testEmulator runs the tables of what programs write and what is shown then.
func testEmulator(t *testing.T, s *shown) {
	tables, err := os.ReadFile("testdata/emulator.mjs")
	if err != nil {
		t.Fatal(err)
	}
	result := s.Text(`import("/terminal.mjs").then((terminal) => {` + string(tables) + `})`)
	found := regexp.MustCompile(`^(\d+) cases, 0 failed$`).FindStringSubmatch(result)
	if found == nil {
		t.Fatal(result)
	}
	if n, _ := strconv.Atoi(found[1]); n < 140 {
		t.Errorf("only %d cases ran, there are at least 140", n)
	}
}

func testLooks(t *testing.T, s *shown) {
	s.writes("\x1b[H\x1b[2J\x1b[1;31mbold\x1b[m \x1b[38;2;1;2;3;48;5;200mdirect\x1b[m \x1b[7mback\x1b[m \x1b]8;;http://elsewhere.example/\x07link\x1b]8;;\x07\x1b[m\r\n日本|😀|äß→€ \x1b[4mend\x1b[m")
	s.Await(rows, "日本|😀|äß→€ end")
	got := "\n" + s.Text(fmt.Sprintf("%s(%d)", looks, s.size.Columns)) + "\n"
	for _, want := range []string{
		"\nbold|rgb(255, 138, 143)|rgba(0, 0, 0, 0)|700|4|", // bold colours are bright
		"\ndirect|rgb(1, 2, 3)|rgb(255, 0, 215)|400|6|",
		"\nback|rgb(20, 23, 28)|rgb(216, 220, 227)|400|4|",
		"\nlink|rgb(216, 220, 227)|rgba(0, 0, 0, 0)|400|5|\n", // with the blank before it, and without any mark of a link
		"\n日本|rgb(216, 220, 227)|rgba(0, 0, 0, 0)|400|4|",
		"\n😀|rgb(216, 220, 227)|rgba(0, 0, 0, 0)|400|2|",
		"|3|xterm-underline-1\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q isn't among the looks:%s", want, got)
		}
	}
}

func testTitle(t *testing.T, s *shown) {
	s.Text(`new MutationObserver(() => { if (document.querySelector("#screen.bell")) window.rang = true; }).observe(document.getElementById("screen"), { attributes: true })`)
	s.writes("\x1b]0;w\u202eork\x07\x1b[2;3H\x1b[6n\x07")
	s.reads("an answer", "\x1b[2;3R")
	if title := s.Await(`document.title`, "work"); title != "work" {
		t.Errorf("the title is %q", title)
	}
	s.Await(`window.rang`, "true")
	s.writes("\x1b]4;1;?\x07\x1b]10;?\x07\x1b]11;?\x07\x1b]12;?\x07\x1b]11;#ffffff\x07\x1b]104\x07\x1b]110\x07\x1b[5n")
	s.reads("nothing of colours", "\x1b[0n")
	s.writes("\x1b]0;\x07")
	s.Await(`document.title`, "127.0.0.1")
}

func testKeys(t *testing.T, s *shown) {
	const alt, ctrl, shift = chromedp.ModifierAlt, chromedp.ModifierCtrl, chromedp.ModifierShift
	for _, c := range []struct {
		key       string
		modifiers chromedp.Modifier
		want      string
	}{
		{kb.Enter, 0, "\r"}, {kb.Tab, 0, "\t"}, {kb.Tab, shift, "\x1b[Z"}, {kb.Escape, 0, "\x1b"},
		{kb.Backspace, 0, "\x7f"}, {kb.Backspace, ctrl, "\b"}, {kb.Backspace, alt, "\x1b\x7f"},
		{kb.ArrowUp, 0, "\x1b[A"}, {kb.ArrowDown, 0, "\x1b[B"}, {kb.ArrowRight, 0, "\x1b[C"}, {kb.ArrowLeft, ctrl, "\x1b[1;5D"},
		{kb.Home, 0, "\x1b[H"}, {kb.End, 0, "\x1b[F"}, {kb.Insert, 0, "\x1b[2~"}, {kb.Delete, 0, "\x1b[3~"}, {kb.PageUp, 0, "\x1b[5~"}, {kb.PageDown, ctrl, "\x1b[6;5~"},
		{kb.F1, 0, "\x1bOP"}, {kb.F4, shift, "\x1b[1;2S"}, {kb.F5, 0, "\x1b[15~"}, {kb.F12, alt, "\x1b[24;3~"},
		{"c", ctrl, "\x03"}, {"d", ctrl, "\x04"}, {" ", ctrl, "\x00"}, {"[", ctrl, "\x1b"}, {"\\", ctrl, "\x1c"}, {"]", ctrl, "\x1d"},
		{"x", alt, "\x1bx"}, {"x", alt | ctrl, "\x1b\x18"}, {"a", 0, "a"}, {"A", shift, "A"}, {"$", shift, "$"},
	} {
		s.Press(c.key, c.modifiers)
		s.reads(fmt.Sprintf("%q with %v", c.key, c.modifiers), c.want)
	}
	if n := s.Await(`document.querySelectorAll(".xterm-rows .xterm-cursor").length`, "1"); n != "1" {
		t.Errorf("there are %s cursors", n)
	}
	s.writes("\x1b[?1h\x1b[5n") // application keys; the answer says that the page has read it
	s.reads("status", "\x1b[0n")
	s.Press(kb.ArrowUp)
	s.reads("an arrow for applications", "\x1bOA")
	s.writes("\x1b[?1l\x1b[5n")
	s.reads("status", "\x1b[0n")
}

// testMouse clicks into a program that asks for the mouse, with coordinates as text and as single bytes.
func testMouse(_ *testing.T, s *shown) {
	s.writes("\x1b[?1000h\x1b[?1006h\x1b[5n")
	s.reads("status", "\x1b[0n")
	s.Do(chromedp.MouseClickXY(6, 30))
	s.reads("a click", "\x1b[<0;1;2M\x1b[<0;1;2m")
	s.writes("\x1b[?1006l\x1b[5n")
	s.reads("status", "\x1b[0n")
	s.Do(chromedp.MouseClickXY(6, 30))
	s.reads("a click", "\x1b[M !\"\x1b[M#!\"")
	s.writes("\x1b[?1000l\x1b[5n")
	s.reads("status", "\x1b[0n")
}

func testInputMethod(t *testing.T, s *shown) {
	s.Type("aé日")
	s.reads("text", "aé日")
	s.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.ImeSetComposition, input.ImeSetCompositionParams{Text: "に", SelectionStart: 1, SelectionEnd: 1})
		return err
	}))
	s.writes("\x1b[5n")
	s.reads("nothing of a composition", "\x1b[0n")
	s.Type("に")
	s.reads("a composed character", "に")
}

// pasteEvent pastes a text that no clipboard holds.
func (s *shown) pasteEvent(expression string) {
	s.Text(`(() => {
		const data = new DataTransfer();
		data.setData("text/plain", ` + expression + `);
		document.querySelector("textarea").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
	})()`)
}

func testClipboard(t *testing.T, s *shown) {
	s.writes("\x1b[H\x1b[2Jsecond first   \r\n")
	s.Await(rows, "second first")
	// A double click marks a word; Ctrl+C copies it then, and interrupts else.
	s.Do(chromedp.MouseClickXY(20, 14), chromedp.MouseClickXY(20, 14, chromedp.ClickCount(2)))
	s.Await(`document.querySelector(".xterm-selection").childElementCount > 0`, "true")
	s.Press("c", chromedp.ModifierCtrl)
	s.Await(`document.querySelector(".xterm-selection").childElementCount > 0`, "false")
	s.Press("c", chromedp.ModifierCtrl)
	s.reads("an interrupt", "\x03")
	s.Paste()
	s.reads("the copied word", "second")

	s.pasteEvent(`"one\ntwo\r\nthree"`)
	s.reads("lines", "one\rtwo\rthree")
	s.writes("\x1b[?2004h\x1b[5n")
	s.reads("status", "\x1b[0n")
	s.pasteEvent(`"a\x1b[201~rm\n"`)
	s.reads("brackets that the text can't end", "\x1b[200~a[201~rm\r\x1b[201~")
	s.writes("\x1b[?2004l\x1b[5n")
	s.reads("status", "\x1b[0n")
	s.pasteEvent(`"x".repeat(200000)`) // more than the server takes in a message
	s.reads("a long text", strings.Repeat("x", 200000))
}

func testHistory(t *testing.T, s *shown) {
	s.writes("\x1b[H\x1b[2J\x1b[3J")
	for i := range 100 {
		s.writes(fmt.Sprintf("line %d\r\n", i))
	}
	s.Await(rows, "line 99\n")
	s.Press(kb.PageUp, chromedp.ModifierShift)
	top := s.Await(rows, "line 66\n")
	if strings.Contains(top, "line 99") {
		t.Errorf("the page doesn't scroll: %s", top)
	}
	s.writes("more\r\n\x1b[5n")
	s.reads("status", "\x1b[0n")
	if now := s.Text(rows); now != top {
		t.Errorf("output moves what is read: %s", now)
	}
	s.Press("a")
	s.reads("a key", "a")
	s.Await(rows, "\nmore\n")
	s.writes("\x1b[?1049h\x1b[Hedit")
	if all := s.Await(rows, "edit"); strings.Contains(all, "line") {
		t.Errorf("the other screen isn't empty: %s", all)
	}
	s.writes("\x1b[?1049l")
	s.Await(rows, "line 99\nmore\n")
}

func testSize(t *testing.T, s *shown) {
	drawn := s.Text(`document.querySelectorAll(".xterm-rows > div").length`)
	if s.size.Columns < 80 || s.size.Columns > 100 || strconv.Itoa(int(s.size.Rows)) != drawn {
		t.Errorf("the page's first size is %v, it draws %s rows", s.size, drawn)
	}
	s.Resize(400, 200)
	var size console.Size
	for size.Columns == 0 || size.Columns > s.size.Columns/2 || size.Rows > s.size.Rows*2/3 {
		size = s.resized()
	}
	s.Await(`document.querySelectorAll(".xterm-rows > div").length`, strconv.Itoa(int(size.Rows)))
	if size.Columns < 35 || size.Rows < 6 {
		t.Errorf("the page's new size is %v", size)
	}
}

// testFlood writes faster than the page draws: nothing is lost, the program waits.
func testFlood(t *testing.T, s *shown) {
	line := strings.Repeat("flood ", 20) + "\r\n"
	for range 64 {
		s.writes(strings.Repeat(line, 1<<10))
	}
	s.writes("all is shown")
	s.Await(rows, "all is shown")
}

func testEnd(t *testing.T, s *shown) {
	s.writes("\x1b[?1h\x1b[20h\x1b[?12h\x1b[5n\x1b]0;unfinished") // what the next terminal mustn't inherit
	s.reads("status", "\x1b[0n")
	close(s.terminal.done)
	if said := s.Await(notice, "ended"); said != "the shell has ended with code 3. Press Enter for a new terminal." {
		t.Errorf("the page says %q", said)
	}
	s.Press(kb.ArrowUp)
	s.Press(kb.Enter)
	s.terminal = s.world.terminal()
	s.writes("fresh")
	if all := s.Await(rows, "fresh"); strings.Contains(all, "flood") {
		t.Errorf("the new terminal shows the old one's text: %s", all)
	}
	s.Press(kb.ArrowUp)
	s.reads("an arrow, the mode is a new one", "\x1b[A")
	if said := s.Text(notice); said != "" {
		t.Errorf("the page still says %q", said)
	}
	if extra := len(s.world.terminals); extra != 0 {
		t.Errorf("%d terminals too many were opened", extra)
	}
}

// testFault lets xterm.js throw: the page says so, and the next terminal works.
func testFault(t *testing.T, s *shown) {
	s.Text(`(() => { window.whole = String.fromCharCode; String.fromCharCode = () => { throw new Error("a fault of the test"); }; })()`)
	s.writes("\x1b]0;title\x07")
	if said := s.Await(notice, "Press"); said != "the page can't show this program's output. Press Enter for a new terminal." {
		t.Errorf("the page says %q", said)
	}
	s.Text(`(() => { String.fromCharCode = window.whole; })()`)
	s.Press(kb.Enter)
	s.terminal = s.world.terminal()
	s.writes("whole again")
	s.Await(rows, "whole again")
}

func testScreenReader(t *testing.T, s *shown) {
	s.Do(chromedp.Navigate("about:blank"), chromedp.Navigate(s.url("/#reader")))
	s.terminal = s.world.terminal()
	s.writes("read this")
	s.Await(`document.querySelector(".xterm-accessibility").textContent`, "read this")
}
