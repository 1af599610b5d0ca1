package config_test

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/config/configtest"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/modules"
)

var update = flag.Bool("update", false, "write docs/schema/croftd.json anew")

const published = "../../../../docs/schema/croftd.json"

func everySetting() []config.Setting { return config.Settings(module.Settings(modules.All())) }

func TestTheSchemaIsPublished(t *testing.T) {
	made, err := config.Schema(everySetting())
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(published, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	there, err := os.ReadFile(published)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, there) {
		t.Error("docs/schema/croftd.json isn't the table of settings: run make generate")
	}
}

// compiled is the schema, as an editor uses it.
func compiled(t *testing.T) func(text string) error {
	t.Helper()
	raw, err := config.Schema(everySetting())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(config.SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(config.SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return func(text string) error {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			return err
		}
		return schema.Validate(v)
	}
}

// TestTheSchemaAcceptsWhatCroftdAccepts: an editor that checks the file by the schema never complains of a good one.
func TestTheSchemaAcceptsWhatCroftdAccepts(t *testing.T) {
	validate := compiled(t)
	for _, s := range everySetting() {
		texts := append(configtest.Others(t, s), s.Default)
		if s.Kind == config.List {
			for _, text := range texts {
				texts = append(texts, "["+text+"]", "[' "+text+"', '']", text+","+text)
			}
		}
		for _, text := range append(texts, "", "''", "7700", "'7700'", "+7", "1.5h", "none", "own", "' '") {
			if strings.Contains(text, "{") {
				continue
			}
			line := s.Name + ": " + text + "\n"
			_, faults := config.Check(config.From{Modules: module.Settings(modules.All()), File: file(t, line)})
			refused := false
			for _, fault := range faults {
				refused = refused || strings.HasPrefix(fault.Error(), "cannot use "+s.Name+" ") || strings.HasPrefix(fault.Error(), "cannot read")
			}
			if err := validate(line); err != nil && !refused {
				t.Errorf("croftd accepts %q, the schema doesn't: %v", line, err)
			}
		}
	}
	if err := validate(""); err != nil {
		t.Errorf("an empty file is refused: %v", err)
	}
}

func TestTheSchemaRefuses(t *testing.T) {
	validate := compiled(t)
	for _, text := range []string{
		"hartbeat: 1s", "heartbeat: soon", "heartbeat: 30", "heartbeat: [30s]", "pool-size: 4GB", "pool-size: -1", "pool-type: NVME", "log-level: loud",
		"accept-signature-v1: perhaps", "cpu-overcommit: 0", "cpu-overcommit: 101", "cpu-overcommit: many", "state-dir: here", "state-dir:", "disk: [NVME:/dev/a]",
		"disk: ['/dev/a,/dev/b']", "container-without: [pets]", "zdb-ports: from here", "vm-accelerator: warp", "image-full: 101", "heartbeat: {a: 1}", "- a",
	} {
		if err := validate(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
