import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/**
 * Has a query read only what it needs of captures: its columns, and the rows that its filters keep.
 *
 * Spark asks other sources for columns, but not those in Python; Wireloom's takes the schema that it
 * is given as a choice. Spark hands filters to sources in Python, but keeps them for all later
 * queries of the same DataFrame, and for other places of the same query, which then lack rows. So
 * the source takes none, but where it is opened anew for one place of one query, which is here.
 */
public final class LessToRead extends Rule {
    private final SparkSession session;

    public LessToRead(SparkSession session) {
        this.session = session;
    }

    // Spark's compiler knows no type arguments and no lambdas.
    public TreeNode apply(TreeNode plan) {
        return plan.transformDown(new AbstractPartialFunction() {
            public boolean isDefinedAt(Object node) {
                return node instanceof Project || node instanceof Filter;
            }

            public Object applyOrElse(Object node, Function1 otherwise) {
                if (!isDefinedAt(node)) {
                    return otherwise.apply(node);
                }
                try {
                    return less((LogicalPlan) node);
                } catch (Exception problem) {
                    log().warn("a query reads all columns and rows of captures", problem);
                    return node;
                }
            }
        });
    }

    private LogicalPlan less(LogicalPlan node) {
        LogicalPlan rest = node;
        Project project = null;
        Filter filter = null;
        if (rest instanceof Project) {
            project = (Project) rest;
            rest = project.child();
        }
        if (rest instanceof Filter) {
            filter = (Filter) rest;
            rest = filter.child();
        }
        if (!(rest instanceof DataSourceV2ScanRelation)) {
            return node;
        }
        DataSourceV2ScanRelation scan = (DataSourceV2ScanRelation) rest;
        if (!scan.relation().table().name().equals("wireloom")
                || scan.relation().options().containsKey("single_query")) {
            return node;
        }
        Map columns = columns(project, filter, scan);
        if (filter == null && columns.size() == scan.output().length()) {
            return node;
        }
        LogicalPlan read = relation(scan, columns);
        if (filter != null) {
            read = new Filter(filter.condition(), read);
        }
        // As Spark has done with the rest of the query: this is how filters reach the source.
        read = (LogicalPlan) session.sessionState().optimizer().execute(read);
        boolean isAll = project == null || project.projectList().equals(read.output());
        return isAll ? read : new Project(project.projectList(), read);
    }

    /** The columns, by their names, in the order of the query. */
    private static Map columns(Project project, Filter filter, DataSourceV2ScanRelation scan) {
        Map found = new LinkedHashMap();
        Seq wanted = project == null ? scan.output() : project.projectList();
        for (Iterator each = wanted.iterator(); each.hasNext();) {
            add(found, ((Expression) each.next()).references(), scan);
        }
        if (filter != null) {
            add(found, filter.condition().references(), scan);
        }
        if (found.isEmpty()) {  // rows are only counted
            Attribute cheap = (Attribute) scan.output().head();
            for (Iterator each = scan.output().iterator(); each.hasNext();) {
                Attribute column = (Attribute) each.next();
                if (column.dataType() instanceof NumericType) {
                    cheap = column;
                    break;
                }
            }
            found.put(cheap.name(), cheap);
        }
        return found;
    }

    private static void add(Map found, AttributeSet references, DataSourceV2ScanRelation scan) {
        for (Iterator each = references.iterator(); each.hasNext();) {
            Attribute column = (Attribute) each.next();
            if (scan.outputSet().contains(column)) {  // else of a query around this one
                found.put(column.name(), column);
            }
        }
    }

    /** The same captures opened anew, with these columns, which the rest of the query knows. */
    private LogicalPlan relation(DataSourceV2ScanRelation scan, final Map columns) {
        StructType schema = new StructType();
        for (Object each : columns.values()) {
            Attribute column = (Attribute) each;
            schema = schema.add(column.name(), column.dataType(), column.nullable());
        }
        Dataset narrow = (Dataset) session.read()
            .format("wireloom")
            .schema(schema)
            .options(scan.relation().options().asCaseSensitiveMap())
            .option("single_query", "true")
            .load();
        return (LogicalPlan) narrow.queryExecution().analyzed().transformExpressions(
            new AbstractPartialFunction() {
                public boolean isDefinedAt(Object node) {
                    return node instanceof Attribute;
                }

                public Object applyOrElse(Object node, Function1 otherwise) {
                    return node instanceof Attribute
                        ? columns.get(((Attribute) node).name())
                        : otherwise.apply(node);
                }
            });
    }
}
