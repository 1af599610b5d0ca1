package slots

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/internal/grubenv"
	"github.com/croft-edge/croft/internal/nodeimage"
)

const (
	environmentFile = "boot/grub/grubenv"
	trialFile       = "croft/trial.json"
	failedFile      = "croft/failed.json"
	// slotVariable and trialVariable of GRUB's environment are the slot that boots, and the one that boots once.
	slotVariable  = "slot"
	trialVariable = "trial"
	// mostFailed bounds the images that are remembered as failed.
	mostFailed = 16
)

// Medium is the boot medium of a running node.
type Medium struct {
	// Root is where it is mounted.
	Root string
	// Slot is that of the running image.
	Slot string
	// Writable mounts it so that it can be written to, or that it can't.
	Writable func(bool) error
	// Key is what images must be signed by; nil for none.
	Key ed25519.PublicKey
}

// trial is one that is under way.
type trial struct {
	Slot string `json:"slot"`
	// Image is the hash of the image's manifest.
	Image string `json:"image"`
}

// Outcome is what has become of a trial.
type Outcome string

// Outcomes.
const (
	// None: no trial was booted.
	None Outcome = ""
	// Running: this boot is the trial.
	Running Outcome = "running"
	// Failed: the trial was booted, or couldn't be, and the old image is back.
	Failed Outcome = "failed"
)

// Look finds out what has become of a trial, and remembers one that has failed. isTrial tells that this boot is one, as GRUB says.
func (m Medium) Look(isTrial bool) (Outcome, error) {
	if isTrial {
		return Running, nil
	}
	t, err := m.readTrial()
	if err != nil || t == nil {
		return None, err
	}
	environment, err := grubenv.Read(m.at(environmentFile))
	if err != nil {
		return None, err
	}
	if _, set := environment.Get(trialVariable); set {
		return None, nil // this boot came by another way than GRUB, and the trial is still to come
	}
	return Failed, m.change(func() error {
		failed, err := m.failed()
		if err != nil {
			return err
		}
		if !slices.Contains(failed, t.Image) {
			failed = append(failed, t.Image)
		}
		if err := m.writeJSON(failedFile, failed[max(0, len(failed)-mostFailed):]); err != nil {
			return err
		}
		return m.remove(trialFile)
	})
}

// Keep makes the running image the one that boots: the node is ready on it.
func (m Medium) Keep() error {
	t, err := m.readTrial()
	if err != nil {
		return err
	}
	environment, err := grubenv.Read(m.at(environmentFile))
	if err != nil {
		return err
	}
	slot, _ := environment.Get(slotVariable)
	_, trialled := environment.Get(trialVariable)
	if t == nil && slot == m.Slot && !trialled {
		return nil
	}
	return m.change(func() error {
		if err := m.setBoot(m.Slot, ""); err != nil {
			return err
		}
		return m.remove(trialFile)
	})
}

// Try has the image in the other slot boot once, at the next boot.
func (m Medium) Try() error {
	other := nodeimage.Other(m.Slot)
	raw, _, err := m.image(other)
	if err != nil {
		return err
	}
	return m.change(func() error {
		// In this order a power cut between the two never makes a trial fail that was none.
		if err := m.setBoot(m.Slot, other); err != nil {
			return err
		}
		return m.writeJSON(trialFile, trial{other, hashOf(raw)})
	})
}

// setBoot writes GRUB's environment; other variables in it stay.
func (m Medium) setBoot(slot, trial string) error {
	environment, err := grubenv.Read(m.at(environmentFile))
	if err != nil {
		return err
	}
	if err := environment.Set(slotVariable, slot); err != nil {
		return err
	}
	environment.Delete(trialVariable)
	if trial != "" {
		if err := environment.Set(trialVariable, trial); err != nil {
			return err
		}
	}
	return grubenv.Write(m.at(environmentFile), environment)
}

// image reads and checks the manifest of the image in a slot.
func (m Medium) image(slot string) (raw []byte, manifest nodeimage.Manifest, err error) {
	folder := m.at(nodeimage.SlotFolder(slot))
	if raw, err = os.ReadFile(filepath.Join(folder, nodeimage.ManifestFile)); err != nil {
		return nil, manifest, errors.Wrapf(err, "cannot find an image in slot %s", slot)
	}
	if m.Key != nil {
		signature, err := os.ReadFile(filepath.Join(folder, nodeimage.SignatureFile))
		if err != nil {
			return nil, manifest, errors.Wrapf(err, "cannot use the image in slot %s", slot)
		}
		if err := nodeimage.Verify(m.Key, raw, signature); err != nil {
			return nil, manifest, err
		}
	}
	manifest, err = nodeimage.Decode(raw)
	return raw, manifest, err
}

func (m Medium) at(name string) string { return filepath.Join(m.Root, name) }

// change makes the medium writable for the time of a change. What was changed is on the medium when it returns.
func (m Medium) change(do func() error) (err error) {
	if err := m.Writable(true); err != nil {
		return errors.Wrap(err, "cannot write to the boot medium")
	}
	defer func() {
		syncErr := syncFolder(m.Root)
		if closeErr := m.Writable(false); err == nil {
			err = errors.Wrap(closeErr, "cannot make the boot medium read-only again")
		}
		if err == nil {
			err = syncErr
		}
	}()
	return do()
}

func (m Medium) readTrial() (*trial, error) {
	var t trial
	found, err := m.readJSON(trialFile, &t)
	if err != nil || !found {
		return nil, err
	}
	return &t, nil
}

func (m Medium) failed() ([]string, error) {
	var out []string
	_, err := m.readJSON(failedFile, &out)
	return out, err
}

// readJSON reads a file of this package's own. One that is damaged, by a power cut, counts as one that isn't there: at worst an image is
// tried once more.
func (m Medium) readJSON(name string, to any) (found bool, err error) {
	raw, err := os.ReadFile(m.at(name))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, errors.Wrap(err, "cannot read the boot medium")
	}
	return json.Unmarshal(raw, to) == nil, nil
}

// writeJSON writes a file by another name first: FAT has no journal.
func (m Medium) writeJSON(name string, content any) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return replace(m.at(name), append(raw, '\n'))
}

func (m Medium) remove(name string) error {
	if err := os.Remove(m.at(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return errors.Wrap(err, "cannot write to the boot medium")
	}
	return nil
}

func replace(path string, content []byte) error {
	if err := writeSynced(path+".new", content); err != nil {
		return err
	}
	return errors.Wrap(os.Rename(path+".new", path), "cannot write to the boot medium")
}

func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return errors.Wrap(err, "cannot write to the boot medium")
	}
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		return errors.Wrap(err, "cannot write to the boot medium")
	}
	return errors.Wrap(f.Sync(), "cannot write to the boot medium")
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return errors.Wrap(err, "cannot write to the boot medium")
	}
	defer f.Close()
	return errors.Wrap(f.Sync(), "cannot write to the boot medium")
}

// hashOf identifies an image by its manifest.
func hashOf(manifest []byte) string {
	sum := sha256.Sum256(manifest)
	return hex.EncodeToString(sum[:])
}
