package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// volume is a volume that the demo has reserved.
type volume struct {
	id   string
	path string
}

// volumes are those that the demo keeps, by their names.
type volumes map[string]volume

// wantNotes checks that every volume is there, and is the same one.
func (v volumes) wantNotes() error {
	for name, one := range v {
		note, err := os.ReadFile(filepath.Join(one.path, "note"))
		if err != nil {
			return fmt.Errorf("volume %s is lost: %w", name, err)
		}
		if string(note) != "kept by "+name {
			return fmt.Errorf("volume %s is another one: %q", name, note)
		}
	}
	return nil
}
