package project

import "fmt"

// Error is a mistake in a project file, and its position.
type Error struct {
	File string
	// Line counts from 1; 0 when it is about the file as a whole.
	Line int
	// Field is the path of the key, as in "workloads.db.zdb.size".
	Field string
	// Problem names the mistake and the allowed values.
	Problem string
}

func (e *Error) Error() string {
	out := "cannot read " + e.File
	if e.Line > 0 {
		out += fmt.Sprintf(": line %d", e.Line)
	}
	if e.Field != "" {
		out += ": " + e.Field
	}
	return out + ": " + e.Problem
}

// at makes an Error without the file's name, which Parse adds.
func at(line int, field, format string, args ...any) error {
	return &Error{Line: line, Field: field, Problem: fmt.Sprintf(format, args...)}
}
