// Package browser opens pages in Chromium for tests, types and clicks as a user does, and records what a
// page requests and complains of. It needs root and Debian's chromium. It owns one browser and its
// profile a page; both are gone when the test ends, also when it fails. Only tests import it.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is the deadline of each step: a busy machine may take long to start a browser.
const patience = time.Minute

// Config says which page is opened where.
type Config struct {
	URL string
	// Network is the path of the network namespace that the browser runs in; empty for the test's own.
	Network string
}

// Page is an open page.
type Page struct {
	testing.TB
	ctx        context.Context
	mu         sync.Mutex
	requests   []string
	complaints []string
}

// Open starts a browser and loads a page in it.
func Open(t testing.TB, c Config) *Page {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("cannot open a page: %v: run make setup", err)
	}
	p := &Page{TB: t}
	// A folder of the test's name would make the paths of Chromium's sockets too long.
	home, err := os.MkdirTemp("", "croft-browser-")
	if err != nil {
		t.Fatalf("cannot open a page: %v", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(home+"/profile"), chromedp.WindowSize(820, 500),
		chromedp.Env("HOME="+home, "TMPDIR="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home), // it writes nowhere else
		chromedp.ModifyCmdFunc(func(cmd *exec.Cmd) { enclose(cmd, c.Network) }),
	)
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closePage := chromedp.NewContext(ctx, chromedp.WithListener(p.record), chromedp.WithErrorf(t.Logf))
	p.ctx = ctx
	t.Cleanup(func() {
		closePage()
		end()
		if err := os.RemoveAll(home); err != nil {
			t.Errorf("cannot remove the browser's profile: %v", err)
		}
	})
	late := time.AfterFunc(patience, closePage) // the context of the first step is the browser's: it has no deadline
	defer late.Stop()
	if err := chromedp.Do(ctx, chromedp.Navigate(c.URL)); err != nil {
		t.Fatalf("cannot open %s: %v", c.URL, err)
	}
	return p
}

// enclose makes the browser the first process of a PID namespace: its end is the end of all processes
// that it started. When the test's process ends, the browser does too.
func enclose(cmd *exec.Cmd, network string) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if network != "" {
		cmd.Args = append([]string{"nsenter", "--net=" + network, "--", cmd.Path}, cmd.Args[1:]...)
		cmd.Path, cmd.Err = exec.LookPath("nsenter")
	}
}

// record keeps the requests and the complaints of the page.
func (p *Page) record(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	case *network.EventWebSocketCreated:
		p.requests = append(p.requests, e.URL)
	case *log.EventEntryAdded:
		p.complaints = append(p.complaints, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if thrown := e.ExceptionDetails.Exception; thrown != nil {
			text += " " + thrown.Description
		}
		p.complaints = append(p.complaints, "exception: "+text)
	}
}

// Requests are the addresses that the page has requested so far, those of sockets too.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requests...)
}

// Complaints are the page's exceptions and what the browser has logged about it, such as a violation of
// the Content-Security-Policy.
func (p *Page) Complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.complaints...)
}

// Do runs steps.
func (p *Page) Do(steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.Fatalf("the browser: %v", err)
	}
}

// Type presses the keys of a text. Characters that no key has are inserted, as an input method does.
func (p *Page) Type(text string) {
	p.Helper()
	for _, character := range text {
		if _, ok := kb.Keys[character]; ok {
			p.Press(string(character))
			continue
		}
		p.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, input.InsertText, input.InsertTextParams{Text: string(character)})
			return err
		}))
	}
}

// Press presses a key, named as package kb does, with modifiers.
func (p *Page) Press(key string, modifiers ...chromedp.Modifier) {
	p.Helper()
	p.press(key, nil, modifiers)
}

// Paste presses Ctrl+V. The keyboard shortcuts of Chromium's window aren't there without one.
func (p *Page) Paste() {
	p.Helper()
	p.press("v", []string{"paste"}, []chromedp.Modifier{chromedp.ModifierCtrl})
}

func (p *Page) press(key string, commands []string, modifiers []chromedp.Modifier) {
	p.Helper()
	events := kb.Encode([]rune(key)[0])
	down, up := events[0], events[len(events)-1]
	down.Commands = commands
	for _, m := range modifiers {
		down.Modifiers |= int64(m)
		up.Modifiers |= int64(m)
	}
	// A typed character is a part of its key's event, so that the page can prevent it.
	if len(events) == 3 && down.Modifiers&^int64(chromedp.ModifierShift) == 0 {
		down.Type = input.DispatchKeyEventTypeKeyDown
		down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
	}
	p.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, *down); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, *up)
		return err
	}))
}

// Resize makes the page so large.
func (p *Page) Resize(width, height int64) {
	p.Helper()
	p.Do(chromedp.EmulateViewport(width, height))
}

// Text is the value of a JavaScript expression, or of the promise that it is, as a text.
func (p *Page) Text(expression string) string {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("Promise.resolve("+expression+").then(String)", chromedp.EvalAwaitPromise))
	if err != nil {
		p.Fatalf("%s: %v", expression, err)
	}
	return text
}

// Await waits until the value of an expression contains a text, and returns the value.
func (p *Page) Await(expression, text string) string {
	p.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(patience); ; <-again.C {
		got := p.Text(expression)
		if strings.Contains(got, text) {
			return got
		}
		if time.Now().After(deadline) {
			p.Fatalf("%s must contain %q, is %q; complaints: %q", expression, text, got, p.Complaints())
		}
	}
}
