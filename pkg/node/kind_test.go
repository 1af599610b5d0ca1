package node_test

import (
	"errors"
	"io"
	"io/fs"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

func TestErrorfCauses(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		text string
		has  []error
	}{
		"no cause":    {node.Errorf(node.Busy, "cannot try %d", 1), "cannot try 1", nil},
		"one cause":   {node.Errorf(node.Busy, "cannot try: %w", io.EOF), "cannot try: EOF", []error{io.EOF}},
		"two causes":  {node.Errorf(node.Busy, "%w; %w", io.EOF, fs.ErrExist), "EOF; file already exists", []error{io.EOF, fs.ErrExist}},
		"inner kinds": {node.Errorf(node.Busy, "%w; %w", node.Errorf(node.Unknown, "a"), io.EOF), "a; EOF", []error{node.Unknown, io.EOF}},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.err.Error() != tt.text {
				t.Errorf("text %q, want %q", tt.err, tt.text)
			}
			if k := node.KindOf(tt.err); k != node.Busy {
				t.Errorf("kind %s, want that of the outermost error", k)
			}
			for _, cause := range tt.has {
				if !errors.Is(tt.err, cause) {
					t.Errorf("cause %v is lost", cause)
				}
			}
		})
	}
}
