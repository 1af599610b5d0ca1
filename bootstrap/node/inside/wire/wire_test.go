package wire

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func TestMessages(t *testing.T) {
	var line bytes.Buffer
	sent := []Request{
		{ID: "1", Arguments: []string{"build", "."}, Files: map[string][]byte{"main.go": []byte("package main")}},
		{ID: "2", Arguments: []string{"build", "./testdata/tool"}, Folder: "modules/container", Environment: []string{"GOARCH=386"}},
	}
	for _, r := range sent {
		if err := Write(&line, r); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range sent {
		var got Request
		if err := Read(&line, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	for name, text := range map[string]string{
		"nothing": "", "half a length": "\x00\x00", "half a message": "\x00\x00\x00\x09{}", "too long": "\xff\xff\xff\xff{}", "no JSON": "\x00\x00\x00\x02}{",
	} {
		if err := Read(strings.NewReader(text), new(Answer)); err == nil {
			t.Errorf("%s is a message", name)
		}
	}
}
