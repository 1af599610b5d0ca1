package kmod

import "strings"

// parameters are a module's of the kernel's command line, whose words MODULE.PARAMETER=VALUE are for modules; those after
// a word -- are for the first process.
func parameters(commandLine, module string) string {
	var out []string
	for _, word := range words(commandLine) {
		if word == "--" {
			break
		}
		if inside, ok := strings.CutPrefix(word, `"`); ok { // "module.parameter=some text"
			name, value, _ := strings.Cut(strings.TrimSuffix(inside, `"`), "=")
			word = name + `="` + value + `"`
		}
		key, _, _ := strings.Cut(word, "=")
		before, _, ok := strings.Cut(key, ".")
		if ok && Name(before) == module {
			out = append(out, word[len(before)+1:])
		}
	}
	return strings.Join(out, " ")
}

// refused are the modules that modprobe.blacklist= and module_blacklist= name, separated by commas. No device loads them.
func refused(commandLine string) map[string]bool {
	out := map[string]bool{}
	for _, word := range words(commandLine) {
		if word == "--" {
			break
		}
		key, list, _ := strings.Cut(word, "=")
		if key != "modprobe.blacklist" && key != "module_blacklist" {
			continue
		}
		for name := range strings.SplitSeq(strings.Trim(list, `"`), ",") {
			out[Name(name)] = true
		}
	}
	return out
}

// words are a command line's, which are separated by white space that isn't between quotation marks.
func words(commandLine string) []string {
	quoted := false
	return strings.FieldsFunc(commandLine, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\t' || r == '\n')
	})
}
