package main

import (
	"context"
	"encoding/json"
	stderrors "errors"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/bootstrap/node/init/settings"
	"github.com/croft-edge/croft/pkg/atomicfile"
)

const (
	// lastGoodFile has the settings with which the node was ready at an earlier boot, in its state.
	lastGoodFile = "/var/lib/init/settings.json"
	// checkedFile has the settings that croftd checks.
	checkedFile = "/run/config/checked.yaml"
)

// given is what the operator has given the machine.
type given struct {
	settings settings.Settings
	// hasFile tells that the settings have a file of the operator's.
	hasFile bool
	check   *check
}

// readSettings joins what the operator says. Faults are shown; writeSettings decides what becomes of them. A file that can't be read is one: it
// may have had the setting that keeps strangers away.
func (m *machine) readSettings(ctx context.Context) {
	file, err := m.operatorsFile(ctx)
	var faults []error
	m.settings, faults = settings.Read(m.line, file)
	m.hasFile = file != nil
	m.wrong(aboutSettings, stderrors.Join(append(faults, err)...))
}

// operatorsFile is the operator's file, nil if there is none. Its disk may come late; a machine whose command line has settings doesn't wait
// for one.
func (m *machine) operatorsFile(ctx context.Context) ([]byte, error) {
	var until time.Time
	for {
		next := m.devices.next()
		file, found, err := readConfigPartition()
		if found || err != nil || ctx.Err() != nil {
			return file, err
		}
		if m.driversLoaded() {
			if until.IsZero() {
				until = time.Now().Add(lateConfig)
			}
			if len(m.line.Below(settings.Prefix)) > 0 || time.Now().After(until) {
				return nil, nil
			}
		}
		select {
		case <-ctx.Done():
		case <-next:
		case <-after(lookEvery):
		}
	}
}

// lateConfig is how long the disk with the operator's file may take to appear after the drivers are loaded.
const lateConfig = 5 * time.Second

// writeSettings writes croftd's settings and has croftd check them. Wrong settings are never run with: a node that has been ready before
// keeps the operator's last good ones, and another one waits for its operator. What the image sets is always of this boot.
func (m *machine) writeSettings(ctx context.Context) error {
	raw, err := m.settingsText(m.settings)
	if err != nil {
		return err
	}
	if err := atomicfile.WriteFile(settingsFile, raw, 0o600); err != nil {
		return err
	}
	last, err := readLastGood(lastGoodFile)
	if err != nil {
		m.wrong("last good settings", err)
	}
	if err := last.lost(m.hasFile || m.settings.Node.NoFile); err != nil && !m.has(aboutSettings) {
		m.wrong(aboutSettings, err)
	}
	if !m.has(aboutSettings) {
		if last != nil && last.Image == m.version && maps.Equal(last.Croftd, m.settings.Croftd) {
			return nil // this image was ready with them
		}
		m.beginCheck(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.check.done:
			m.wrong(aboutSettings, m.check.err)
		}
	}
	if !m.has(aboutSettings) {
		return nil
	}
	if last == nil {
		return m.waitForOperator(ctx, errors.New("the settings are wrong, and there are none of an earlier boot"))
	}
	m.say("the node runs with the settings of its last good boot")
	if raw, err = m.settingsText(settings.Settings{Croftd: last.Croftd}); err != nil {
		return err
	}
	return atomicfile.WriteFile(settingsFile, raw, 0o600)
}

// settingsText is croftd's configuration file: the operator's settings, and those that the image makes on this machine.
func (m *machine) settingsText(given settings.Settings) ([]byte, error) {
	image := imageSettings()
	maps.Copy(image, m.disks.Load().settings(given.Croftd))
	return given.File(image)
}

// lastGood are the operator's settings with which the node was ready, and the image.
type lastGood struct {
	Image string `json:"image"`
	// File tells that there was a file of the operator's.
	File   bool              `json:"file"`
	Croftd map[string]string `json:"croftd"`
}

// lost is an error where the operator's file was there and isn't any more: what it forbade would be allowed. enough tells that it is there, or isn't
// wanted.
func (l *lastGood) lost(enough bool) error {
	if l == nil || !l.File || enough {
		return nil
	}
	return errors.New("the file croft.yaml isn't there, with which the node was ready the last time; croft.config=none runs without it")
}

// readLastGood reads the last good settings; nil if there are none.
func readLastGood(file string) (*lastGood, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.Wrap(err, "cannot read the settings of the last good boot")
	}
	var out lastGood
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, errors.Wrap(err, "cannot read the settings of the last good boot")
	}
	return &out, nil
}

// keepSettings keeps the settings of this boot as the last good ones, unless they are wrong.
func (m *machine) keepSettings() error {
	if m.has(aboutSettings) {
		return nil
	}
	raw, err := json.Marshal(lastGood{Image: m.version, File: m.hasFile, Croftd: m.settings.Croftd})
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(lastGoodFile, append(raw, '\n'), 0o600)
}

// check is croftd's check of the operator's settings, once a boot.
type check struct {
	once sync.Once
	// done is closed once err is what came of it.
	done chan struct{}
	err  error
}

func newCheck() *check { return &check{done: make(chan struct{})} }

// beginCheck has croftd check the operator's settings, in the background, unless it does so already.
func (m *machine) beginCheck(ctx context.Context) {
	m.check.once.Do(func() {
		go func() {
			defer close(m.check.done)
			m.check.err = m.checkSettings(ctx)
		}()
	})
}

// checkSettings checks the operator's settings together with those that the image makes everywhere.
func (m *machine) checkSettings(ctx context.Context) error {
	raw, err := m.settings.File(imageSettings())
	if err != nil {
		return err
	}
	if err := atomicfile.WriteFile(checkedFile, raw, 0o600); err != nil {
		return err
	}
	defer os.Remove(checkedFile)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, croftd, "config", "check", checkedFile).CombinedOutput()
	if err == nil {
		return nil
	}
	if text := strings.TrimSpace(string(out)); text != "" {
		return errors.New(text)
	}
	return errors.Wrap(err, "cannot check croftd's settings")
}
