package mirror

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// restoredFile is the store's file that says which lists it was restored from. Restore writes it, the store's mirrors read it, and the store leaves
// it alone.
const restoredFile = metaFolder + "restored"

// metaFolder begins the names of the store's own state.
const metaFolder = "meta/"

// mostOrigins bounds how many restores are remembered: as many as a store remembers births.
const mostOrigins = 16

// origins is the content of restoredFile.
type origins struct {
	// From are the lists that the store and the ones that it follows were restored from, newest first, one a birth.
	From []origin `json:"from"`
}

// origin is a list that a store was restored from.
type origin struct {
	// Birth and Written are the list's.
	Birth   string    `json:"birth"`
	Written time.Time `json:"written"`
	// State is what stateOf the list gave; empty when only a part was restored.
	State string `json:"state,omitempty"`
}

// stateOf is a hash of what a list has, but for the store's own state, which changes when nothing else does.
func stateOf(l *list) string {
	all := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(l.Files)) {
		if !strings.HasPrefix(name, metaFolder) {
			_, _ = all.Write([]byte(name + "\x00" + l.Files[name] + "\x00"))
		}
	}
	return base64.RawURLEncoding.EncodeToString(all.Sum(nil))
}

// with is the document of a store that is restored from a list. earlier is the document that the mirror had, if any.
func (o origin) with(earlier []byte) ([]byte, error) {
	var before origins
	if json.Unmarshal(earlier, &before) != nil {
		before = origins{} // none, or damaged: what it tells only holds back mirrors
	}
	all := append([]origin{o}, slices.DeleteFunc(before.From, func(old origin) bool { return old.Birth == o.Birth })...)
	text, err := json.Marshal(origins{From: all[:min(len(all), mostOrigins)]})
	return text, errors.Wrap(err, "cannot write what a store was restored from")
}

// later reports whether a list of an earlier birth of the store has something that this store was restored without: it was written after the list
// that the store comes from, and has other files. A list that was never whole has nothing to lose: nothing else can be restored from it.
func later(s Source, l *list) (bool, error) {
	text, err := s.Read(restoredFile)
	if kind := node.KindOf(err); kind == node.NotExist || kind == node.Invalid {
		return false, nil // it wasn't restored by a croft that keeps it
	}
	if err != nil {
		return false, err
	}
	var from origins
	if json.Unmarshal(text, &from) != nil {
		return false, nil
	}
	for _, o := range from.From {
		if o.Birth == l.Birth {
			return l.Complete && l.Written.After(o.Written) && stateOf(l) != o.State, nil
		}
	}
	return false, nil
}
