package croft_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"
)

// document is one Markdown file, its path relative to the module's root.
type document struct {
	path string
	// prose is the text without code blocks and code spans; text has them.
	prose, text string
	// anchors are the names that the headings get where the document is shown.
	anchors map[string]bool
}

var (
	codeBlock = regexp.MustCompile("(?ms:^ *```.*?^ *```[ \t]*$)|(?m:^(?:\n    .*)+$)")
	codeSpan  = regexp.MustCompile("`[^`\n]+`")
	mdLink    = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	codePath  = regexp.MustCompile("`((?:cmd|pkg|provision|modules|explorer|bootstrap|bench|docs)/[A-Za-z0-9_./-]*[A-Za-z0-9_/])`")
)

// documents are all Markdown files of the repository by their paths.
func documents(t *testing.T) map[string]document {
	t.Helper()
	out, err := readDocuments()
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 15 {
		t.Fatalf("found only %d documents: the walk is broken", len(out))
	}
	return out
}

// readDocuments reads them once for all tests.
var readDocuments = sync.OnceValues(func() (map[string]document, error) {
	out := map[string]document{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "bin" || strings.HasPrefix(d.Name(), ".") && name != ".") {
			return filepath.SkipDir
		}
		if filepath.Ext(name) != ".md" {
			return nil
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		doc := document{path: filepath.ToSlash(name), text: string(raw)}
		doc.prose = codeBlock.ReplaceAllString(doc.text, "")
		doc.anchors = anchorsOf(doc.prose)
		out[doc.path] = doc
		return nil
	})
	return out, err
})

// links are the relative ones of a document, as they are written.
func (d document) links() []string {
	var out []string
	for _, m := range mdLink.FindAllStringSubmatch(codeSpan.ReplaceAllString(d.prose, ""), -1) {
		if !strings.Contains(m[1], "://") && !strings.HasPrefix(m[1], "mailto:") {
			out = append(out, m[1])
		}
	}
	return out
}

// anchorsOf are the names that the headings of a document get where it is shown.
func anchorsOf(prose string) map[string]bool {
	out, seen := map[string]bool{}, map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(prose, -1) {
		name := anchorOf(m[1])
		seen[name]++
		if n := seen[name]; n > 1 {
			name += "-" + strconv.Itoa(n-1)
		}
		out[name] = true
	}
	return out
}

func anchorOf(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

func TestLinksOfDocumentsResolve(t *testing.T) {
	docs := documents(t)
	links := 0
	for _, d := range docs {
		for _, link := range d.links() {
			links++
			file, anchor, _ := strings.Cut(link, "#")
			target := d.path
			if file != "" {
				target = path.Join(path.Dir(d.path), file)
			}
			if strings.HasPrefix(target, "..") || path.IsAbs(file) {
				t.Errorf("%s: link %s leaves the repository", d.path, link)
				continue
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link %s: %v", d.path, link, err)
				continue
			}
			if anchor != "" && !docs[target].anchors[anchor] {
				t.Errorf("%s: link %s: %s has no such heading", d.path, link, target)
			}
		}
	}
	if links < 40 {
		t.Errorf("found only %d links: their pattern is broken", links)
	}
}

// A document that nothing leads to isn't read.
func TestEveryDocumentIsReachedFromTheReadme(t *testing.T) {
	docs := documents(t)
	reached := map[string]bool{}
	todo := []string{"README.md"}
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if reached[name] {
			continue
		}
		reached[name] = true
		for _, link := range docs[name].links() {
			file, _, _ := strings.Cut(link, "#")
			target := path.Join(path.Dir(name), file)
			if info, err := os.Stat(target); err == nil && info.IsDir() {
				target = path.Join(target, "README.md")
			}
			if _, ok := docs[target]; ok {
				todo = append(todo, target)
			}
		}
	}
	for name := range docs {
		if !reached[name] {
			t.Errorf("no link leads from README.md to %s", name)
		}
	}
}

func TestPathsThatDocumentsNameExist(t *testing.T) {
	named := 0
	for _, d := range documents(t) {
		for _, m := range codePath.FindAllStringSubmatch(d.text, -1) {
			if strings.ToLower(m[1]) != m[1] {
				continue // a placeholder in capitals
			}
			named++
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s names %s: %v", d.path, m[1], err)
			}
		}
	}
	if named < 20 {
		t.Errorf("found only %d paths: their pattern is broken", named)
	}
}

// Whoever reads has the repository and nothing else: no folder of somebody's
// machine, and nothing that is left to do.
func TestDocumentsStandAlone(t *testing.T) {
	foreign := regexp.MustCompile(`(?i)(^|[^\w.])/(root|mnt|users)/|\b(to ?do|fix ?me):`)
	for _, bad := range []string{"see /root/x", "in /Users/me/x", "To do: more", "fixme: here"} {
		if !foreign.MatchString(bad) {
			t.Errorf("the pattern lets %q pass", bad)
		}
	}
	for _, d := range documents(t) {
		for i, line := range strings.Split(d.text, "\n") {
			if m := foreign.FindString(line); m != "" {
				t.Errorf("%s:%d: %q means nothing to its reader", d.path, i+1, strings.TrimSpace(m))
			}
		}
	}
}

// commandLine is a command in a code block with a comment behind it; commandStart is how it begins.
var (
	commandLine  = regexp.MustCompile(`(?m)^    (?:sudo )?[a-z][^#\n:]*  # .*$`)
	commandStart = regexp.MustCompile(`^    (?:sudo )?(?:cd|croft|croftd|explorer|git|go|ls|make|rm|zdb) `)
	commandEnd   = regexp.MustCompile(` (?:sudo|croft|croftd|make)(?: [a-z]+)?$`)
)

// TestCommandsHaveLinesOfTheirOwn: text that an editor wrapped as prose gives readers commands that don't run.
func TestCommandsHaveLinesOfTheirOwn(t *testing.T) {
	count := 0
	for name, d := range documents(t) {
		for _, line := range commandLine.FindAllString(d.text, -1) {
			count++
			if !commandStart.MatchString(line) || commandEnd.MatchString(line) {
				t.Errorf("%s: %q isn't one command and its comment", name, strings.TrimSpace(line))
			}
		}
	}
	if count < 15 {
		t.Errorf("found only %d commands with a comment", count)
	}
}
