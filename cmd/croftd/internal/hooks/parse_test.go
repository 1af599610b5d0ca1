package hooks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/hooks"
)

func TestParse(t *testing.T) {
	h, err := hooks.Parse("mail", []byte(`# tells the operator
on:
  cron: "*/5 * * * *"
  events:
    - {type: Warning, reason: Drifted, object: container/5-*}
    - object: "*"
run: [/usr/local/bin/mail, --subject, 7]
timeout: 30s
queue: slow
`))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2027, 3, 1, 12, 3, 0, 0, time.Local)
	if next := h.Schedule.Next(at); !next.Equal(at.Add(2 * time.Minute)) {
		t.Errorf("after %s it runs at %s", at, next)
	}
	if h.Name != "mail" || fmt.Sprint(h.Argv) != "[/usr/local/bin/mail --subject 7]" || h.Timeout != 30*time.Second || h.Queue != "slow" || len(h.Events) != 2 {
		t.Errorf("%+v", h)
	}
	h, err = hooks.Parse("short", []byte("on: {cron: '@every 5s'}\nrun: [/bin/true]\n"))
	if err != nil || h.Timeout != time.Minute || h.Queue != "main" || h.Schedule.Next(at).Sub(at) != 5*time.Second {
		t.Errorf("%+v, %v", h, err)
	}
}

// TestRefusedHooks is the specification of the error messages.
func TestRefusedHooks(t *testing.T) {
	const run = "\nrun: [/bin/true]\n"
	for text, want := range map[string]string{
		"":                                 "cannot read hook x: it is empty",
		"a: [":                             "it isn't YAML",
		"- a":                              "line 1: a hook must be a mapping",
		"on: {cron: '@daily'}\nruns: [/x]": `line 2: a hook has no field "runs"`,
		"on: {cron: '@daily'}" + run + run: "line 4: run is there twice",
		"on: {cron: '@daily'}" + run + "---\na: b":                          "it must be one document",
		"on: {cron: '@daily'}":                                              "run is missing",
		"run: [/bin/true]":                                                  "on is missing, it must have cron, events or both",
		"on: {}" + run:                                                      "on is missing",
		"on: '@daily'" + run:                                                "line 1: on must be a mapping",
		"on:\n  chron: x" + run:                                             `line 2: on has no field "chron"`,
		"on: {cron: 5}" + run:                                               `line 1: cannot read the schedule "5": it must be five fields`,
		"on: {cron: '* * * *'}" + run:                                       "it must be five fields",
		"on: {cron: '* * * * * *'}" + run:                                   "it must be five fields",
		"on: {cron: '61 * * * *'}" + run:                                    "it must be five fields",
		"on: {cron: '0 0 30 2 *'}" + run:                                    "it never comes",
		"on: {cron: '@reboot'}" + run:                                       "it must be five fields",
		"on: {cron: '@every soon'}" + run:                                   "@every is of one second or more",
		"on: {cron: '@every -5s'}" + run:                                    "@every is of one second or more",
		"on: {cron: '@every 1ms'}" + run:                                    "@every is of one second or more",
		"on: {cron: 'TZ=0'}" + run:                                          "it names a time zone",
		"on: {cron: 'CRON_TZ=x * * * * *'}" + run:                           "it names a time zone",
		"on: {cron: '*/0 * * * *'}" + run:                                   "it must be five fields",
		"on: {cron: '* * * * *" + strings.Repeat(" ", 300) + "'}" + run:     "has 309 bytes",
		"on: {cron: ''}" + run:                                              "it must be five fields",
		"on: {cron: }" + run:                                                "line 1: cron must be a text",
		"on: {cron: [a]}" + run:                                             "line 1: cron must be a text",
		"on: {events: []}" + run:                                            "line 1: events must be a list of 1 to 64",
		"on: {events: {reason: A}}" + run:                                   "line 1: events must be a list",
		"on: {events: [{}]}" + run:                                          "line 1: a match of events must have type, reason or object",
		"on: {events: [x]}" + run:                                           "line 1: a match of events must be a mapping",
		"on: {events: [{kind: Warning}]}" + run:                             `line 1: a match of events has no field "kind"`,
		"on: {events: [{type: warning}]}" + run:                             `line 1: type is "warning", it must be Normal or Warning`,
		"on: {events: [{reason: drifted}]}" + run:                           `line 1: reason is "drifted", it must be one word such as Drifted`,
		"on: {events: [{object: '[' }]}" + run:                              `line 1: object is "[", it must be TYPE or TYPE/ID`,
		"on: {events: [{object: '/5-1' }]}" + run:                           `line 1: object is "/5-1", it must be TYPE or TYPE/ID`,
		"on: {cron: '@daily'}\nrun: /bin/true":                              "line 2: run must be a list",
		"on: {cron: '@daily'}\nrun: []":                                     "line 2: run must be a list",
		"on: {cron: '@daily'}\nrun: [true]":                                 `line 2: run begins with "true", it must be a program's absolute path`,
		"on: {cron: '@daily'}\nrun: [/x, [a]]":                              "line 2: each item of run must be a text",
		"on: {cron: '@daily'}\nrun: [/x, \"a\\0b\"]":                        "line 2: an item of run has a zero byte",
		"on: {cron: '@daily'}\nrun: [/x" + strings.Repeat(", y", 300) + "]": "at most 255 arguments",
		"on: {cron: '@daily'}" + run + "timeout: 5":                         `line 3: timeout is "5", it must be a duration above 0 and up to 24h`,
		"on: {cron: '@daily'}" + run + "timeout: 25h":                       `line 3: timeout is "25h"`,
		"on: {cron: '@daily'}" + run + "queue: A B":                         `line 3: queue is "A B", it must be lower case`,
		"on: {cron: '@daily'}" + run + "queue: ~":                           "line 3: queue must be a text",
		"x: &a 1\non: *a" + run:                                             `line 1: a hook has no field "x"`,
		"on: {cron: '@daily'}\nrun: [/x, &a b, *a]":                         "line 2: each item of run must be a text",
		strings.Repeat("# \n", 30000):                                       "it has more than 65536 bytes",
	} {
		_, err := hooks.Parse("x", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "cannot read hook x: ") {
			t.Errorf("%.60q: %v\nwant %s", text, err, want)
		}
		if err != nil && len(err.Error()) > 600 {
			t.Errorf("%.60q: the error has %d bytes", text, len(err.Error()))
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("on: {cron: '*/5 * * * *', events: [{type: Warning, reason: Drifted, object: container/*}]}\nrun: [/bin/true]\ntimeout: 5s\nqueue: a\n")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := hooks.Parse("x", []byte(text))
		if err == nil && (len(h.Argv) == 0 || h.Timeout <= 0 || h.Queue == "" || h.Schedule == nil && len(h.Events) == 0) {
			t.Errorf("%q becomes %+v", text, h)
		}
	})
}

func TestMatches(t *testing.T) {
	h, err := hooks.Parse("x", []byte(`on: {events: [{type: Warning, object: "container/5-*"}, {reason: Drifted, object: "*"}, {object: zdb}]}
run: [/bin/true]`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		e    hooks.Event
		want bool
	}{
		{hooks.Event{Kind: hooks.Warning, ObjectType: "container", ObjectID: "5-1"}, true},
		{hooks.Event{Kind: hooks.Normal, ObjectType: "container", ObjectID: "5-1"}, false},
		{hooks.Event{Kind: hooks.Warning, ObjectType: "container", ObjectID: "6-1"}, false},
		{hooks.Event{Kind: hooks.Warning, ObjectType: "volume", ObjectID: "5-1"}, false},
		{hooks.Event{Kind: hooks.Normal, Reason: "Drifted", ObjectType: "volume", ObjectID: "9-9"}, true},
		{hooks.Event{Kind: hooks.Normal, Reason: "Driftedx", ObjectType: "volume"}, false},
		{hooks.Event{ObjectType: "zdb", ObjectID: "1-1"}, true},
		{hooks.Event{ObjectType: "zdbs"}, false},
		{hooks.Event{}, false},
		{hooks.Event{Kind: hooks.Warning, Reason: "Drifted", ObjectType: hooks.ObjectType, ObjectID: "x"}, false},
	} {
		if got := hooks.Matches(h, c.e); got != c.want {
			t.Errorf("%+v: %t", c.e, got)
		}
	}
}
