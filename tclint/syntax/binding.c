// Hands the generated parser to py-tree-sitter: `language()` returns a capsule named "tree_sitter.Language".

#include <Python.h>

typedef struct TSLanguage TSLanguage;

const TSLanguage *tree_sitter_ptx_isa(void);

static PyObject *language(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    return PyCapsule_New((void *)tree_sitter_ptx_isa(), "tree_sitter.Language", NULL);
}

static PyMethodDef methods[] = {
    {"language", language, METH_NOARGS, "The tree-sitter language of PTX, as a capsule."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef_Slot slots[] = {
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_binding",
    .m_doc = NULL,
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__binding(void) { return PyModuleDef_Init(&module); }
