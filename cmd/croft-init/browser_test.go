package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/croft-edge/croft/internal/testing/browser"
)

// Expressions for what the page shows.
const (
	rowsShown   = `[...document.querySelectorAll(".xterm-rows > div")].map((row) => row.textContent.trimEnd()).join("\n")`
	noticeShown = `document.getElementById("notice").textContent`
	// coloursShown are the pieces of text that aren't in the terminal's own colour.
	coloursShown = `[...document.querySelectorAll(".xterm-rows span")].map((span) => span.textContent + " " + getComputedStyle(span).color).join("\n")`
)

// TestTerminalInChromium uses a shell in the container from Chromium, in the container's network: as
// nothing else is there, the page has everything that it needs.
func TestTerminalInChromium(t *testing.T) {
	t.Setenv("SHELL", "/bin/sh")
	t.Setenv("ENV", "")
	t.Setenv("PS1", "ready> ")
	b := start(t, "", "--listen", address)
	b.eventually("the terminal is served", func() bool {
		answer, err := b.client().Get("http://" + address + "/")
		if err == nil {
			answer.Body.Close()
		}
		return err == nil
	})
	p := browser.Open(t, browser.Config{URL: "http://" + address + "/", Network: fmt.Sprintf("/proc/%d/ns/net", b.pid)})

	p.Await(rowsShown, "ready>")
	p.Type(`printf '<\033[32m%s\033[m> \033[38;2;1;2;3m%s\033[m äß→€ 日本 😀 %d\n' green direct $((40+2))` + kb.Enter)
	p.Await(rowsShown, "\n<green> direct äß→€ 日本 😀 42\n")
	got := p.Text(coloursShown)
	for _, want := range []string{"green rgb(111, 191, 115)", "direct rgb(1, 2, 3)"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q isn't among the colours: %s", want, got)
		}
	}

	// size is a size that the shell has printed with a label.
	size := func(label string) (rows, columns int) {
		t.Helper()
		line := p.Await("/^"+label+`=\d+ \d+$/m.exec(`+rowsShown+`)`, label)
		if _, err := fmt.Sscanf(line, label+"=%d %d", &rows, &columns); err != nil {
			t.Fatal(err)
		}
		return rows, columns
	}
	p.Type(`was=$(stty size); echo "first=$was"` + kb.Enter)
	beforeRows, beforeColumns := size("first")
	p.Resize(600, 700)
	p.Type(`while [ "$(stty size)" = "$was" ]; do sleep .1; done; echo "then=$(stty size)"` + kb.Enter)
	if rows, columns := size("then"); rows < 2*beforeRows-2 || columns > beforeColumns*3/4 {
		t.Errorf("the terminal has %d rows and %d columns, before it had %d and %d", rows, columns, beforeRows, beforeColumns)
	}

	p.Type("sh -c 'echo asleep; exec sleep 1000'" + kb.Enter)
	p.Await(rowsShown, "\nasleep\n")
	p.Press("c", chromedp.ModifierCtrl)
	p.Type("exit 7" + kb.Enter)
	p.Await(noticeShown, "the shell has ended with code 7. Press Enter for a new terminal.")
	p.Type(kb.Enter)
	p.Await(rowsShown, "ready>")
	p.Type("echo a new shell" + kb.Enter)
	p.Await(rowsShown, "\na new shell\n")

	if complaints := p.Complaints(); len(complaints) != 0 {
		t.Errorf("the browser complains: %q", complaints)
	}
	for _, request := range p.Requests() {
		if !strings.HasPrefix(request, "http://"+address+"/") && request != "ws://"+address+"/ws" {
			t.Errorf("the page requests %s", request)
		}
	}
}
