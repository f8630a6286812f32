// How the search orders its results: headings that contain the query, then the page of questions, then the guide and
// the notebooks, then the reference. The numbers without a function are those of Sphinx.
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: ([page, title, anchor, description, score, file, kind]) => {
    const heading = kind === "title" ? 10 : 0;
    const group = page === "questions" ? 3 : /^(reference|developers|_modules)/.test(page) ? 0 : 1;
    return score + heading + group;
  },
};
