package store

import (
	"github.com/croft-edge/croft/pkg/versioned"
	"github.com/croft-edge/croft/provision/store/durable"
)

// SealAs makes a sound file of another version.
func SealAs(v versioned.Version, body []byte) []byte {
	out := versioned.Join(v, []byte(checksum(v, body)+"\n"))
	return append(append(out, body...), '\n')
}

// OpenOn opens a store on another provider than the one of its folder.
func OpenOn(c Config, provider func() (durable.Provider, error)) (*FSStore, error) {
	return openOn(c, provider)
}

// Migrate converts a record of major 2.
func Migrate(r Record, refusal bool) Record { return migrate(r, refusal) }

// Encode makes the bytes of a record's file.
func Encode(r Record) ([]byte, error) { return encode(r) }

// MaxTombText bounds a tombstone's text.
const MaxTombText = maxTombText

// Shortened cuts text to MaxTombText.
func Shortened(text string) string { return shortened(text) }
